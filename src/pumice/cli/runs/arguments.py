"""Arguments and output that the commands on runs share."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from pumice.cli.errors import BAD_INPUT, print_error
from pumice.client.backend import Backend, Feature, RunRef, complete
from pumice.client.backends import LOCAL, open_backend
from pumice.model.problem import Position
from pumice.model.text import escaped
from pumice.store.run_errors import InvalidOption, NoSuchPod, NoSuchRun, RunError, Unsupported
from pumice.store.run_names import LAST, is_directory_name, parse_pod

T = TypeVar("T")
Argument: TypeAlias = Callable[[argparse.ArgumentParser], object]
Work: TypeAlias = Callable[[Backend, argparse.Namespace], Coroutine[Any, Any, int]]
_NAMESPACE_HELP: Final = "the namespace of the Jobs; default all on this machine, the context's on a cluster"
FAILED: Final = 1
NOT_SUCCESSFUL: Final = 100
NOT_FINISHED: Final = 101
NO_SUCH_RUN: Final = 102
STOPPED: Final = 103
TIMED_OUT: Final = 124


def add_namespace(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--namespace", default="", metavar="NS", help=_NAMESPACE_HELP)
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    add_context(parser)


def add_context(parser: argparse._ActionsContainer) -> None:
    help_text = "where: a context of the kubeconfig, in-cluster or local; default $PUMICE_ON, else this machine"
    parser.add_argument("--on", "--context", default="", metavar="CONTEXT", help=help_text)
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="with --on; default as for kubectl")


def chosen_context(args: argparse.Namespace) -> str:
    """Return the context that a command is about; empty for this machine. Raises InvalidOption."""
    from pumice.client.run_options.default_context import default_context

    on: str = args.on or default_context(os.environ)
    if on not in ("", LOCAL):
        return on
    if args.kubeconfig:
        raise InvalidOption("without a context, runs are local", "name one: --on CONTEXT", Position("--kubeconfig"))
    return ""


def open_chosen(args: argparse.Namespace) -> Backend:
    """Return the backend that the flags, PUMICE_ON or the user's config.toml name. Raises InvalidOption."""
    namespace: str = args.namespace
    if namespace and args.all_namespaces:
        raise InvalidOption("cannot be combined with -n", "leave out one of them", Position("-A"))
    if namespace and not is_directory_name(namespace):
        raise InvalidOption(f"{namespace}: cannot be a namespace", "pumice ps -o wide shows them", Position("-n"))
    if not (on := chosen_context(args)):
        return open_backend(namespace=namespace)
    backend = open_backend(on, namespace, None, args.kubeconfig, args.all_namespaces)
    backend.listen(tell)
    return backend


def open_announced(args: argparse.Namespace) -> Backend:
    """Return the same for a command that starts runs; say so if nothing that was typed names it."""
    backend = open_chosen(args)
    if backend.waits and not args.on:
        source = "PUMICE_ON" if os.environ.get("PUMICE_ON") else "config.toml"
        print(f"on {backend.name}, as {source} says", file=sys.stderr)
    if args.namespace and not backend.waits:
        raise InvalidOption("is only for runs on a cluster", "write metadata.namespace", Position(option="namespace"))
    return backend


def open_named(args: argparse.Namespace) -> Backend:
    """Return the backend that the flags name, whatever the environment says. Raises InvalidOption."""
    if not args.on:
        flag = "--kubeconfig" if args.kubeconfig else "-n"
        raise InvalidOption("names no cluster by itself", "add --on CONTEXT", Position(flag))
    return open_backend(args.on, args.namespace, None, args.kubeconfig)


def add_output(parser: argparse.ArgumentParser, *more: str) -> None:
    choices = (*more, "json", "yaml")
    parser.add_argument("-o", "--output", choices=choices, help="print data instead of text")


def argument(*names: str, **options: Any) -> Argument:
    """Return an argument of a command, as `add_argument` of argparse declares it."""
    return lambda parser: parser.add_argument(*names, **options)


RUN_HELP: Final = "NAME (its newest run), NAME:N, @last, or 8 or more characters of a uid"
RUNS: Final = argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
RUN_OR_LAST: Final = argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP}; default @last")
RUN_OR_POD_HELP: Final = "a run (NAME, NAME:N, @last, uid) or a pod ([RUN/]TASK-INDEX); default @last"


class RunCommand(Struct, frozen=True):
    """A command on runs. `waits` says whether it waits for something: then it needs an event loop, which loads long."""

    work: Work
    arguments: Sequence[Argument] = ()
    waits: Callable[[argparse.Namespace], bool] | bool = True
    feature: Feature | None = None  # of the backend
    no_such_run: int = BAD_INPUT  # the exit code

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        for add in self.arguments:
            add(parser)

    def run(self, args: argparse.Namespace) -> int:
        """Print what the service did since the last command and meanwhile, and errors; return the exit code."""

        def work() -> int:
            backend = open_chosen(args)
            print_lines([*backend.notices(), *backend.warnings()])
            if self.feature is not None and (problem := backend.supports(self.feature)) is not None:
                raise Unsupported(problem.message, problem.hint)
            waits = self.waits(args) if callable(self.waits) else self.waits
            return finish(closing(backend, self.work(backend, args)), waits=backend.waits or waits)

        return guarded(work, self.no_such_run)


def run_command(*arguments: Argument, **options: Any) -> Callable[[Work], RunCommand]:
    """Make a command of a coroutine; the options are those of RunCommand."""
    return lambda work: RunCommand(work, arguments, **options)


async def closing(backend: Backend, work: Coroutine[Any, Any, T]) -> T:
    """Do the work, and close the connections of the backend."""
    try:
        return await work
    finally:
        await backend.close()


def finish(work: Coroutine[Any, Any, T], *, waits: bool) -> T:
    """Run a coroutine to its end."""
    if not waits:
        return complete(work)
    import asyncio

    return asyncio.run(work)


def tell(line: str) -> None:
    """Say what happens while a command works, or to its connection."""
    print(escaped(line), file=sys.stderr, flush=True)


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr)


def print_notices() -> None:
    """Print what the service did, and no command has printed yet."""
    with suppress(InvalidOption):
        # Without a state directory there is no service.
        print_lines(open_backend().notices())


async def chosen_run(backend: Backend, text: str | None) -> RunRef:
    """Return the named run; without a name the newest, which is named on stderr. Raises NoSuchRun."""
    run = await backend.find(text or LAST)
    if not text:
        print(run, file=sys.stderr)
    return run


async def run_or_pod(backend: Backend, text: str) -> tuple[RunRef, str]:
    """Return run and pod of `RUN` or `[RUN/]TASK-INDEX`; a run is tried before a pod. Raises NoSuchRun."""
    pod = parse_pod(text)
    try:
        if "/" not in text:
            return await backend.find(text), ""
    except NoSuchRun:
        if pod is None:
            raise
    if pod is None:
        raise NoSuchRun(f"{text}: must be RUN, TASK-INDEX or RUN/TASK-INDEX")
    run = await backend.find(pod[0])
    if "/" not in text:
        print(run, file=sys.stderr)
    return run, pod[1]


async def find_pod(backend: Backend, text: str) -> tuple[RunRef, str]:
    """Return run and pod of `[RUN/]TASK-INDEX`. Raises NoSuchRun."""
    found = parse_pod(text)
    if found is not None:
        return await backend.find(found[0]), found[1]
    hint = ""
    with suppress(RunError):
        run = await backend.find(text)
        gang = (await backend.status(run)).gang
        hint = f"{text} is a run; a pod of it is {run}/{gang[0].task}-0" if gang else ""
    raise NoSuchRun(f"{text}: must be TASK-INDEX or RUN/TASK-INDEX", hint)


async def one_or_more(backend: Backend, texts: Sequence[str]) -> list[RunRef]:
    """Return all named runs, each once. Raises NoSuchRun for the first that does not exist, before any effect."""
    return list(dict.fromkeys([await backend.find(text) for text in texts]))


def guarded(work: Callable[[], int], no_such_run: int = BAD_INPUT) -> int:
    """Print the errors of a command, and what the service did meanwhile; return its exit code."""
    try:
        return work()
    except BrokenPipeError:
        # The reader of the output needs no more of it.
        raise
    except NoSuchRun as error:
        print_error(error)
        return no_such_run
    except (InvalidOption, NoSuchPod) as error:
        print_error(error)
        return BAD_INPUT
    except (RunError, ConnectionError) as error:
        print_error(error)
        return FAILED
    except OSError as error:
        if error.filename is None:
            # The output cannot be written.
            raise
        print(f"{os.fsdecode(error.filename)}: {(error.strerror or str(error)).lower()}", file=sys.stderr)
        return FAILED
    finally:
        print_notices()


def print_objects(values: Iterable[object]) -> None:
    """Print a JSON object per line."""
    for each in values:
        print(msgspec.json.encode(each).decode(), flush=True)


def print_data(value: object, form: str) -> None:
    """Print a value as one JSON or YAML document."""
    plain: Any = msgspec.to_builtins(value)
    if form == "json":
        print(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
    else:
        from pumice.yaml.writer import write_yaml

        write_yaml([plain], sys.stdout)
