"""The command line. Each command is a module of its own, loaded only when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol, cast

from pumice.cli.resource_errors import shortage


class Command(NamedTuple):
    module: str  # below pumice.cli
    summary: str


COMMANDS: Final = {
    "validate": Command("offline.validate", "check Job files: every finding, with path and line"),
    "render": Command("offline.render", "print the objects that a Job becomes"),
    "explain": Command("offline.explain", "show who put what into the pods of a Job, and why"),
    "plugins": Command("offline.plugins", "list the plugins, or the arguments of one"),
    "run": Command("run.command", "run a Job here and now, in sandboxes on this machine"),
    "image": Command("offline.image", "list, add or remove the images that `run` finds without a registry"),
    "simulate": Command("offline.simulate", "rehearse what the policies of a Job do, in virtual time"),
    "webhook": Command("cluster.webhook", "fill in defaults and check Jobs for an API server"),
    "install": Command("cluster.install", "print what puts Pumice on a cluster, or check what one lacks"),
    "controller": Command("cluster.controller", "serve the Jobs of a Kubernetes cluster"),
    "schema": Command("offline.schema", "print a JSON Schema of the Job file, for editors and CI"),
}
BAD_INPUT: Final = 2
INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams()
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        return 0
    except OSError as error:
        # Files are read where each fault has its own message; what fails here is the way out, such as a full disk.
        _say((error.strerror or str(error)).lower())
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    except (MemoryError, RuntimeError, ImportError, ExceptionGroup) as error:
        missing = shortage(error)
        if not missing:
            raise
        _say(missing)
        return BAD_INPUT
    finally:
        _discard_unwritable()
    return code


def _say(problem: str) -> None:
    with suppress(OSError):
        print(f"pumice: {problem}", file=sys.stderr)


def _run(words: Sequence[str]) -> int:
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
    # Intermixed, so that flags may stand between files: `pumice explain job.yaml --json worker-1`.
    args, unknown = commands[called].parse_known_intermixed_args(words[1:])
    if unknown:
        commands[called].error(f"unknown arguments: {' '.join(unknown)}")
    return load_command(called).run(args)


def _parsers(called: str) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the program, and those of its commands by name."""
    parser = argparse.ArgumentParser(
        prog="pumice",
        description="Volcano Jobs, light enough to run anywhere.",
        epilog="pumice COMMAND --help tells more",
    )
    parser.add_argument("--version", action=_Version)
    group = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    commands = {}
    for name, (_, summary) in COMMANDS.items():
        command = commands[name] = group.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        command.set_defaults(parser=command)
        # Only the command that is really called brings its arguments, so that the others need not be loaded.
        if name == called:
            load_command(name).add_arguments(command)
    return parser, commands


def _no_such_command(word: str) -> str:
    from pumice.model.suggestions import did_you_mean

    asked = f"{did_you_mean(word, COMMANDS)} ".lstrip()
    return f"pumice: {word}: no such command\n  hint: {asked}there are {', '.join(COMMANDS)}"


class CommandModule(Protocol):
    """What the module of a command offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def load_command(name: str) -> CommandModule:
    return cast(CommandModule, importlib.import_module(f"pumice.cli.{COMMANDS[name].module}"))


class _Version(argparse.Action):
    """`--version`, which looks the version up only when asked: reading package metadata takes longer than all else."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"pumice {version('pumice')}")
        parser.exit()


def _prepare_streams() -> None:
    """A stream that our caller closed is None in Python; what is written to it goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open until the program ends
    # Names of files may be any bytes, and some terminals know few characters; what cannot be shown is escaped.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_unwritable() -> None:
    """What could not be written, Python would try to write once more at its end, and complain."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
