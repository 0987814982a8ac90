"""Arguments and output that the commands on runs share."""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from pumice.client.liveness import disk_warnings
from pumice.client.run_reader import RunReader
from pumice.engines.local.run_errors import InvalidOption, NoSuchPod, NoSuchRun, RunError
from pumice.engines.local.runs.run_names import LAST, is_directory_name
from pumice.engines.local.runs.run_store import StoredRun
from pumice.model.duration import Duration, DurationError, elapsed_text
from pumice.model.problem import Position
from pumice.yaml.writer import write_yaml

if TYPE_CHECKING:
    from pumice.client.local_client import LocalClient

Reader = TypeVar("Reader", bound=RunReader)
BAD_INPUT: Final = 2
FAILED: Final = 1
NOT_SUCCESSFUL: Final = 100
NOT_FINISHED: Final = 101
NO_SUCH_RUN: Final = 102
STOPPED: Final = 103
TIMED_OUT: Final = 124
RUN_HELP: Final = "NAME (its newest run), NAME:N, @last, or 8 or more characters of a uid"


def add_namespace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--namespace", default="", metavar="NS", help="the namespace of the Jobs; default all")
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces, which is the default")


def add_output(parser: argparse.ArgumentParser, *more: str) -> None:
    choices = (*more, "json", "yaml")
    parser.add_argument("-o", "--output", choices=choices, help="print data instead of text")


def client_of(args: argparse.Namespace) -> LocalClient:
    """Return the client; print what the service did since the last command: runs interrupted, old runs removed."""
    from pumice.client.local_client import LocalClient

    return _announced(LocalClient(namespace=_namespace(args)))


def reader_of(args: argparse.Namespace) -> RunReader:
    """Do the same for a command that only lists runs."""
    return _announced(RunReader(namespace=_namespace(args)))


def _namespace(args: argparse.Namespace) -> str:
    namespace: str = args.namespace
    if namespace and args.all_namespaces:
        raise InvalidOption("cannot be combined with -n", "leave out one of them", Position("-A"))
    if namespace and not is_directory_name(namespace):
        raise InvalidOption(f"{namespace}: cannot be a namespace", "pumice ps -o wide shows them", Position("-n"))
    return namespace


def _announced(reader: Reader) -> Reader:
    print_notices(reader)
    for line in disk_warnings(reader.store.state):
        print(line, file=sys.stderr)
    return reader


def print_notices(client: RunReader) -> None:
    """Print what the service did, and no command has printed yet."""
    with suppress(InvalidOption):
        # Without a state directory there is no service.
        for line in client.notices():
            print(line, file=sys.stderr)


def chosen_run(client: RunReader, text: str | None) -> StoredRun:
    """Return the named run; without a name the newest, which is named on stderr. Raises NoSuchRun."""
    run = client.find(text or LAST)
    if not text:
        print(f"{run.ref}", file=sys.stderr)
    return run


def guarded(work: Callable[[], int], no_such_run: int = BAD_INPUT) -> int:
    """Print the errors of a command, and what the service did meanwhile; return its exit code."""
    try:
        return _guarded(work, no_such_run)
    finally:
        print_notices(RunReader())


def _guarded(work: Callable[[], int], no_such_run: int) -> int:
    try:
        return work()
    except BrokenPipeError:
        # The reader of the output needs no more of it.
        raise
    except NoSuchRun as error:
        print(error, file=sys.stderr)
        return no_such_run
    except (InvalidOption, NoSuchPod) as error:
        print(error, file=sys.stderr)
        return BAD_INPUT
    except (RunError, ConnectionError) as error:
        print(error, file=sys.stderr)
        return FAILED
    except OSError as error:
        if error.filename is None:
            # The output cannot be written.
            raise
        print(f"{os.fsdecode(error.filename)}: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        return FAILED


def print_data(value: object, form: str) -> None:
    """Print a value as one JSON or YAML document."""
    plain: Any = msgspec.to_builtins(value)
    if form == "json":
        print(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
    else:
        write_yaml([plain], sys.stdout)


def seconds(text: str, flag: str) -> float:
    """Parse a duration such as 10m. Raises InvalidOption."""
    try:
        return Duration.parse(text).nanoseconds / 1e9
    except DurationError as error:
        raise InvalidOption(f"{text}: {error.message}", error.hint, Position(flag)) from error


def age(moment: dt.datetime, now: dt.datetime) -> str:
    """Return how long ago something was: `40s`, `12m`, `3h`, `5d`."""
    passed = max(0.0, (now - moment).total_seconds())
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if passed >= 2 * size or (unit != "d" and passed >= size):
            return f"{int(passed // size)}{unit}"
    return f"{int(passed)}s"


def lasted(begin: dt.datetime, end: dt.datetime) -> str:
    return elapsed_text((end - begin).total_seconds())


def one_or_more(texts: Sequence[str], client: RunReader) -> list[StoredRun]:
    """Return all named runs, each once. Raises NoSuchRun for the first that does not exist, before any effect."""
    found = [client.find(text) for text in texts]
    return list({run.record.uid: run for run in found}.values())
