"""The entry point of the command line. The module of a command is loaded only when the command is called."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from pumice.cli.errors import BAD_INPUT, refuse, shortage
from pumice.model import VERSION
from pumice.runtime.process_life import loading

if TYPE_CHECKING:
    from typing import Protocol

    class CommandModule(Protocol):
        """The functions of a command: of a module, or of a value in one."""

        def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

        def run(self, args: argparse.Namespace) -> int: ...


# argparse looks for translations of its words, which nobody makes, in a file per language and word.
argparse._ = str  # type: ignore[attr-defined]  # not declared


# By the heading of `pumice --help`: the module of a command below pumice.cli, `MODULE:NAME` where it has several, and
# a summary.
GROUPS: Final = {
    "start a Job": {
        "init": ("offline.init", "write a commented Job file for a script"),
        "run": ("run.command", "run a Job on this machine, in sandboxes"),
        "submit": ("control.submit", "start Jobs that outlive the terminal, and print their names"),
    },
    "look at a Job file": {
        "validate": ("offline.validate", "check Job files: every finding, with path and line"),
        "render": ("offline.render", "print the objects that a Job becomes"),
        "explain": ("offline.explain", "show where everything in a pod comes from, and why"),
        "simulate": ("offline.simulate", "simulate a Job in virtual time, to see what its policies do"),
        "schema": ("offline.schema", "print a JSON Schema of the Job file, for editors and CI"),
        "plugins": ("offline.plugins", "list the plugins, or the arguments of one of them"),
    },
    "follow runs": {
        "ps": ("runs.ps:ps", "list runs: active ones, and those that finished within 24 hours"),
        "get": ("runs.results:get", "print a run's Job with its status, and how it ended"),
        "logs": ("runs.logs:logs", "print what the pods of runs printed, in one order"),
        "attach": ("runs.attach:attach", "show a run as `run` does, until it ends; Ctrl-C leaves it running"),
        "wait": ("runs.results:wait", "wait until runs have finished, and report how by the exit code"),
        "why": ("runs.why:why", "say why a run waits, or why it failed"),
        "history": ("runs.history:history", "list the runs of a Job, or the attempts of a run"),
        "top": ("runs.top:top", "show what the pods of runs use of CPUs, memory and GPUs"),
        "replay": ("runs.attach:replay", "show a run again, from its record"),
        "ui": ("runs.ui", "show runs in the browser: pods, logs, why they wait or failed"),
    },
    "change runs": {
        "stop": ("control.changes:stop", "stop runs; their records stay"),
        "suspend": ("control.changes:suspend", "end the pods of runs, which can be resumed"),
        "resume": ("control.changes:resume", "queue suspended runs again: what has succeeded is not repeated"),
        "restart": ("control.changes:restart", "restart all pods of a run; it costs no retry"),
        "scale": ("control.changes:scale", "change the number of pods of a running task"),
        "detach": ("control.changes:detach", "let a foreground run continue without its terminal"),
        "exec": ("control.pods:exec_", "run a command in a running pod, or open a terminal there"),
        "forward": ("control.pods:forward", "make a port of a running pod available on this machine"),
        "cp": ("control.pods:cp", "copy files into a running pod, or out of a pod"),
    },
    "keep and remove runs": {
        "export": ("control.archives:export", "pack a run into an archive, without secret variables"),
        "open": ("control.archives:open_", "store the run of an archive of `export`, to be shown like any other"),
        "rm": ("control.changes:remove", "remove the records and logs of runs"),
        "clean": ("control.clean:clean", "remove old runs"),
    },
    "this machine": {
        "image": ("offline.image", "list, add, pull or remove the images that `run` finds on this machine"),
        "service": ("control.service", "show, stop or install the process that queues and recovers runs"),
        "completion": ("offline.completion", "print a script that completes words for bash, zsh or fish"),
    },
    "a cluster": {
        "contexts": ("cluster.contexts", "list where runs can be: this machine and your clusters"),
        "nodes": ("cluster.contexts:nodes", "show what nodes have, and what is free on them"),
        "install": ("cluster.install", "print the manifests that install Pumice, or check a cluster"),
        "controller": ("cluster.controller", "run the controller for the Jobs of a Kubernetes cluster"),
        "webhook": ("cluster.webhook", "serve the admission webhook: defaults and checks for Jobs"),
    },
}
COMMANDS: Final = {name: command for group in GROUPS.values() for name, command in group.items()}
# Other names of commands, which people know from other programs.
ALIASES: Final = {"list": "ps", "delete": "rm"}
# Programs that people type before a script, with a version at the end.
_STARTERS: Final = frozenset({"python", "bash", "sh", "torchrun", "mpirun", "mpiexec"})
INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    # Make standard output and standard error writable. Python sets a stream that the caller closed to None.
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the program ends
    # File names may contain any bytes, and terminals may lack characters: escape what cannot be encoded.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader of the output needs no more of it, as in `pumice render ... | head`.
        return 0
    except OSError as error:
        # Errors of reading are handled where the file is known. What fails here is the output, as on a full disk.
        _print_error((error.strerror or str(error)).lower())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except (MemoryError, RuntimeError, ImportError, ExceptionGroup) as error:
        missing = shortage(error)
        if not missing:
            raise
        _print_error(missing)
        return BAD_INPUT
    finally:
        _discard_unwritable()
    return code


def _discard_unwritable() -> None:
    """Discard output that cannot be written. Python would try again at exit, and print an error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _print_error(message: str) -> None:
    with suppress(OSError):
        print(f"pumice: {message}", file=sys.stderr)


def _run(words: Sequence[str]) -> int:
    words = [ALIASES.get(words[0], words[0]), *words[1:]] if words else words
    called = next((word for word in words if not word.startswith("-")), "")
    if not words:
        _program_parser().print_help(sys.stderr)
        return BAD_INPUT
    if called == words[0] and called not in COMMANDS:
        return _refuse_command(called)
    if called != words[0]:
        # Only --help and --version may come before a command, and both end the program.
        _program_parser().parse_args(words)
    parser = _command_parser(called)
    # Intermixed, so that flags may come between operands: `pumice explain job.yaml --json worker-1`.
    actions = parser._actions  # noqa: SLF001 - no other way
    takes_args = any(action.dest == "args" for action in actions)
    # What stands before --, and the arguments of the program after it; None without --.
    mark = words.index("--") if takes_args and "--" in words else None
    before, own = words[:mark], None if mark is None else [*words[mark + 1 :]]
    args, unknown = parser.parse_known_intermixed_args(before[1:])
    if takes_args:
        unknown, args.args = [*unknown, *args.args], own
    if unknown:
        flags = [flag for action in actions for flag in action.option_strings]
        parser.error(_unknown_arguments(unknown, flags, before if takes_args and own is None else ()))
    return load_command(called).run(args)


def _program_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pumice",
        usage="pumice [-h] [--version] COMMAND ...",
        description="Volcano Jobs, light enough to run anywhere.",
        epilog='Run "pumice COMMAND --help" for details',
    )
    parser.add_argument("--version", action="version", version=f"pumice {VERSION}", help="print the version")
    for title, commands in GROUPS.items():
        group = parser.add_argument_group(title)
        for name, (_, summary) in commands.items():
            group.add_argument(name, nargs="?", help=summary)
    return parser


def _command_parser(name: str) -> argparse.ArgumentParser:
    """Return the parser of a command. The other commands declare no arguments, so their modules are not loaded."""
    parser = _Parser(prog=f"pumice {name}", description=COMMANDS[name][1], allow_abbrev=False)
    parser.set_defaults(parser=parser)
    load_command(name).add_arguments(parser)
    from pumice.cli.help_examples import EXAMPLES

    examples = "\n  ".join(["examples:", *EXAMPLES[name]])
    parser.formatter_class = partial(argparse.RawDescriptionHelpFormatter, width=_help_width())
    parser.epilog = "\n\n".join(filter(None, [parser.epilog, examples]))
    return parser


class _Parser(argparse.ArgumentParser):
    """Prints the mistake and where to look, not the whole usage: that of `run` alone fills half a screen."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"formatter_class": partial(argparse.HelpFormatter, width=_help_width()), **options})
        # Python 3.14 and newer would colour the help, which a Terminal would escape.
        self.color = False

    def error(self, message: str) -> NoReturn:
        text = message if "\n  hint: " in message else f"{message}\n  hint: {self.prog} --help lists the arguments"
        self.exit(BAD_INPUT, f"{self.prog}: error: {text}\n")


def _help_width() -> int:
    """Return the width of help as argparse does, which loads shutil for it, also where it prints no help."""
    columns, said = 80, os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        columns = int(said)
    elif sys.__stdout__ is not None:
        with suppress(OSError, ValueError):
            columns = os.get_terminal_size(sys.__stdout__.fileno()).columns or columns
    return columns - 2


def _unknown_arguments(unknown: Sequence[str], flags: Sequence[str], typed: Sequence[str]) -> str:
    """Say what is not known. `typed` is the command, if its program may have arguments."""
    from pumice.model.suggestions import did_you_mean

    message = f"unknown arguments: {' '.join(unknown)}"
    guesses = filter(None, (did_you_mean(word.partition("=")[0], flags) for word in unknown if word.startswith("--")))
    guess = next(guesses, "")
    if typed:
        own = _after_options(typed, unknown, flags)
        others = [word for index, word in enumerate(typed) if index not in own]
        words = [typed[index] for index in own]
        script = next((word for word in words if word.endswith((".py", ".sh"))), "")
        if script and others[-1].rstrip("0123456789.") in _STARTERS:
            words = words[words.index(script) + 1 :]
            others[-1] = script
            guess = f"name the script itself: {shlex.join(['pumice', *others, *(['--', *words] if words else [])])}"
        else:
            again = shlex.join(["pumice", *others, "--", *words])
            guess = f"{guess} arguments of the program go after --: {again}".lstrip()
    return f"{message}\n  hint: {guess}" if guess else message


def _after_options(typed: Sequence[str], unknown: Sequence[str], flags: Sequence[str]) -> list[int]:
    """Return the indexes of the words that no option knows, and of the values of unknown options."""
    found: list[int] = []
    # Of equal words, the first ones are known: `pumice run train.py train.py`.
    known = {word: typed.count(word) - unknown.count(word) for word in unknown}
    for index, word in enumerate(typed):
        known[word] = known.get(word, 1) - 1
        is_value = bool(found) and found[-1] == index - 1 and not word.startswith("-")
        if known[word] < 0 or (is_value and typed[index - 1].startswith("-") and word not in flags):
            found.append(index)
    return found


def _refuse_command(word: str) -> int:
    from pumice.model.suggestions import nearest

    # A short word that lacks a letter: `rn`, which is too short for a guess in a document.
    one_more = (name for name in COMMANDS if len(name) == len(word) + 1 and name[0] == word[0] and {*word} <= {*name})
    guess = nearest(word, COMMANDS) or next(one_more, "")
    suggestion = f"did you mean {guess}? " if guess else ""
    return refuse(f"pumice: {word}: no such command", f"{suggestion}pumice --help lists the commands")


def load_command(name: str) -> CommandModule:
    module, _, member = COMMANDS[name][0].partition(":")
    with loading():
        found = importlib.import_module(f"pumice.cli.{module}")
    return cast("CommandModule", getattr(found, member) if member else found)
