"""The command line. Each command is a module of its own, loaded only when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final, Protocol, cast

COMMANDS: Final = {
    "validate": "check Job files: every finding, with path and line",
    "render": "print the objects that a Job becomes",
    "explain": "show who put what into the pods of a Job, and why",
    "plugins": "list the plugins, or the arguments of one",
    "schema": "print a JSON Schema of the Job file, for editors and CI",
}


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        args = _parser(words).parse_args(words)
        code = _command(args.command).run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    return code


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pumice",
        description="Volcano Jobs, light enough to run anywhere. Everything here works offline.",
        epilog="pumice COMMAND --help tells more",
    )
    parser.add_argument("--version", action=_Version)
    called = next((word for word in words if not word.startswith("-")), "")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=summary, allow_abbrev=False)
        # Only the command that is really called brings its arguments, so that the others need not be loaded.
        if name == called:
            _command(name).add_arguments(command)
    return parser


class _Command(Protocol):
    """What each command's module offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def _command(name: str) -> _Command:
    return cast(_Command, importlib.import_module(f"pumice.cli.{name}"))


class _Version(argparse.Action):
    """`--version`, which looks the version up only when asked: reading package metadata takes longer than all else."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, dest, nargs=0, help="print the version")

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"pumice {version('pumice')}")
        parser.exit()
