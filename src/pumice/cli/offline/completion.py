"""`pumice completion SHELL`: prints the script by which bash, zsh or fish completes the words of `pumice`.

The script follows from what the commands declare. What only this machine knows, such as the names of images, the script
asks for at the moment, with `--names`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from typing import Final

from pumice.cli.main import COMMANDS, load_command
from pumice.cli.offline.completion_scripts import SCRIPTS, CommandWords, Flag, Values
from pumice.engines.local.run_errors import RunError

# The metavars of arguments that are paths.
_PATHS: Final = ("FILE", "JOB", "SCRIPT", "DIR", "PATH", "PATH[:ro]", "PREFIX", "SOURCE", "TARGET")


def _plugin_names() -> Iterable[str]:
    from pumice.runtime.discovery import discover

    return discover().plugins


def _image_names() -> Iterable[str]:
    from pumice.engines.local.images.names import familiar
    from pumice.engines.local.images.store import ImageStore, images_directory

    return [familiar(image.name) for image in ImageStore(images_directory()).images()]


def _run_names() -> Iterable[str]:
    from pumice.client.local_client import LocalClient

    numbered = [f"{each.parent.name}:{each.name}" for each in LocalClient().store.directories()]
    return dict.fromkeys(["@last", *(each.partition(":")[0] for each in numbered), *numbered])


def _pod_names() -> Iterable[str]:
    from pumice.client.local_client import LocalClient
    from pumice.client.run_logs import planned_job, pod_names

    last = LocalClient().find("@last")
    return pod_names(last, planned_job(last))


# What only this machine knows, and the arguments whose values it is: by metavar, or by command and name. Each function
# imports what it needs, because a person waits for it.
_NAMES: Final[dict[str, Callable[[], Iterable[str]]]] = {
    "plugins": _plugin_names,
    "images": _image_names,
    "runs": _run_names,
    "pods": _pod_names,
}
_NAMED: Final = {
    "RUN": "runs",
    "NAME|RUN": "runs",
    "RUN|POD": "runs",
    "exec pod": "pods",
    "plugins name": "plugins",
    "image operands": "images",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=tuple(SCRIPTS), help=", ".join(SCRIPTS))
    parser.add_argument(
        "--names",
        choices=tuple(_NAMES),
        help="for the scripts: print these names, one per line",
    )


def run(args: argparse.Namespace) -> int:
    if args.names:
        try:
            print(*_NAMES[args.names](), sep="\n")
        except RunError as error:
            # Such as a state directory that cannot be read. The scripts ignore it.
            print(error, file=sys.stderr)
            return 2
        return 0
    if not args.shell:
        print(f"pumice completion: which shell?\n  hint: there are {', '.join(SCRIPTS)}", file=sys.stderr)
        return 2
    print(SCRIPTS[args.shell]([_words(name) for name in COMMANDS]), end="")
    return 0


def _words(command: str) -> CommandWords:
    """What a command declares."""
    parser = argparse.ArgumentParser(add_help=False)
    load_command(command).add_arguments(parser)
    flags = [Flag(("-h", "--help"), "show the help of this command", None)]
    operands, repeats = [], False
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them, since Python 2.7
        values = Values(
            words=tuple(map(str, action.choices or ())),
            files=action.metavar in _PATHS,
            names=_NAMED.get(f"{command} {action.dest}") or _NAMED.get(str(action.metavar), ""),
        )
        if action.option_strings:
            takes = None if action.nargs == 0 else values
            flags.append(Flag(tuple(action.option_strings), action.help or "", takes))
        else:
            operands.append(values)
            repeats = action.nargs in ("+", "*")
    return CommandWords(command, COMMANDS[command].summary, tuple(flags), tuple(operands), repeats=repeats)
