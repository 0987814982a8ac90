"""The entry point of the command line. The module of a command is loaded only when the command is called."""

from __future__ import annotations

import argparse
import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, NoReturn, Protocol, cast

from pumice.cli.resource_errors import shortage


class Command(NamedTuple):
    module: str  # below pumice.cli
    summary: str


COMMANDS: Final = {
    "init": Command("offline.init", "write a commented Job file for a script"),
    "validate": Command("offline.validate", "check Job files: every finding, with path and line"),
    "render": Command("offline.render", "print the objects that a Job becomes"),
    "explain": Command("offline.explain", "show where everything in a pod comes from, and why"),
    "plugins": Command("offline.plugins", "list the plugins, or the arguments of one of them"),
    "run": Command("run.command", "run a Job on this machine, in sandboxes"),
    "submit": Command("control.submit", "start Jobs that outlive the terminal, and print their names"),
    "ps": Command("runs.ps", "list runs: active ones, and those that finished within 24 hours"),
    "get": Command("runs.get", "print a run's Job with its status, and how it ended"),
    "logs": Command("runs.logs", "print what the pods of runs printed, in one order"),
    "attach": Command("runs.attach", "show a run as `run` does, until it ends; Ctrl-C leaves it running"),
    "detach": Command("control.detach", "let a foreground run continue without its terminal"),
    "wait": Command("runs.wait", "wait until runs have finished, and report how by the exit code"),
    "why": Command("runs.why", "say why a run waits, or why it failed"),
    "history": Command("runs.history", "list the runs of a Job, or the attempts of a run"),
    "top": Command("runs.top", "show what the pods of runs use of CPUs, memory and GPUs"),
    "stop": Command("control.stop", "stop runs; their records stay"),
    "suspend": Command("control.suspend", "end the pods of runs, which can be resumed"),
    "resume": Command("control.resume", "queue suspended runs again: what has succeeded is not repeated"),
    "restart": Command("control.restart", "restart all pods of a run; it costs no retry"),
    "scale": Command("control.scale", "change the number of pods of a running task"),
    "exec": Command("control.exec", "run a command in a running pod, or open a terminal there"),
    "cp": Command("control.cp", "copy files into a running pod, or out of a pod"),
    "rm": Command("control.remove", "remove the records and logs of runs"),
    "clean": Command("control.clean", "remove old runs"),
    "service": Command("control.service", "show, stop or install the process that queues and recovers runs"),
    "export": Command("control.export", "pack a run into an archive, without secret variables"),
    "replay": Command("runs.replay", "show a run again, from its record"),
    "ui": Command("runs.ui", "show runs in the browser: pods, logs, why they wait or failed"),
    "image": Command("offline.image", "list, add, pull or remove the images that `run` finds on this machine"),
    "simulate": Command("offline.simulate", "simulate a Job in virtual time, to see what its policies do"),
    "webhook": Command("cluster.webhook", "serve the admission webhook: defaults and checks for Jobs"),
    "install": Command("cluster.install", "print the manifests that install Pumice, or check a cluster"),
    "controller": Command("cluster.controller", "run the controller for the Jobs of a Kubernetes cluster"),
    "schema": Command("offline.schema", "print a JSON Schema of the Job file, for editors and CI"),
    "completion": Command("offline.completion", "print a script that completes words for bash, zsh or fish"),
}
# Other names of commands, which people know from other programs.
ALIASES: Final = {"list": "ps", "delete": "rm"}
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams()
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


def _print_error(message: str) -> None:
    with suppress(OSError):
        print(f"pumice: {message}", file=sys.stderr)


def _run(words: Sequence[str]) -> int:
    words = [ALIASES.get(words[0], words[0]), *words[1:]] if words else words
    called = next((word for word in words if not word.startswith("-")), "")
    parser, commands = _parsers(called)
    if not words:
        parser.print_help(sys.stderr)
        return BAD_INPUT
    if called == words[0] and called not in COMMANDS:
        print(_no_such_command(called), file=sys.stderr)
        return BAD_INPUT
    if called != words[0]:
        # Only --help and --version may come before a command, and both end the program.
        parser.parse_args(words)
    # Intermixed, so that flags may come between operands: `pumice explain job.yaml --json worker-1`.
    args, unknown = commands[called].parse_known_intermixed_args(words[1:])
    if unknown:
        flags = [flag for action in commands[called]._actions for flag in action.option_strings]  # noqa: SLF001 - no other way
        commands[called].error(_unknown_arguments(unknown, flags))
    return load_command(called).run(args)


def _parsers(called: str) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the program, and the parsers of its commands by name."""
    parser = _Parser(
        prog="pumice",
        description="Volcano Jobs, light enough to run anywhere.",
        epilog='Run "pumice COMMAND --help" for details',
    )
    parser.add_argument("--version", action=_Version)
    group = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands: dict[str, argparse.ArgumentParser] = {}
    for name, (_, summary) in COMMANDS.items():
        command = commands[name] = group.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        command.set_defaults(parser=command)
        # Only the called command declares its arguments, so that the other modules need not be loaded.
        if name == called:
            load_command(name).add_arguments(command)
            _add_examples(command, name)
    return parser, commands


def _add_examples(command: argparse.ArgumentParser, name: str) -> None:
    from pumice.cli.help_examples import EXAMPLES

    examples = "\n  ".join(["examples:", *EXAMPLES[name]])
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.epilog = "\n\n".join(filter(None, [command.epilog, examples]))


class _Parser(argparse.ArgumentParser):
    """Prints the mistake and where to look, not the whole usage: that of `run` alone fills half a screen."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Python 3.14 and newer would colour the help, which a Terminal would escape.
        self.color = False

    def error(self, message: str) -> NoReturn:
        text = message if "\n  hint: " in message else f"{message}\n  hint: {self.prog} --help lists the arguments"
        self.exit(BAD_INPUT, f"{self.prog}: error: {text}\n")


def _unknown_arguments(unknown: Sequence[str], flags: Sequence[str]) -> str:
    from pumice.model.suggestions import did_you_mean

    message = f"unknown arguments: {' '.join(unknown)}"
    guesses = filter(None, (did_you_mean(word.partition("=")[0], flags) for word in unknown if word.startswith("--")))
    guess = next(guesses, "")
    return f"{message}\n  hint: {guess}" if guess else message


def _no_such_command(word: str) -> str:
    from pumice.model.suggestions import did_you_mean

    suggestion = f"{did_you_mean(word, COMMANDS)} ".lstrip()
    return f"pumice: {word}: no such command\n  hint: {suggestion}there are {', '.join(COMMANDS)}"


class CommandModule(Protocol):
    """The functions of a command's module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def load_command(name: str) -> CommandModule:
    # Modules stay: looking for garbage while they load would take a tenth of the time.
    gc.disable()
    try:
        return cast(CommandModule, importlib.import_module(f"pumice.cli.{COMMANDS[name].module}"))
    finally:
        gc.enable()


class _Version(argparse.Action):
    """`--version`. Reads the package metadata only when needed, because that takes longer than everything else."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"pumice {version('pumice')}")
        parser.exit()


def _prepare_streams() -> None:
    """Make standard output and standard error writable. Python sets a stream that the caller closed to None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the program ends
    # File names may contain any bytes, and terminals may lack characters: escape what cannot be encoded.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_unwritable() -> None:
    """Discard output that cannot be written. Python would try again at exit, and print an error."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
