"""The reference of `import pumice`: the signature of everything in `__all__`, from the code itself.

A change of any signature changes the page, and a test compares the page with the code: what programs rely on does not
change by accident.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any, get_type_hints

import msgspec

import pumice
import pumice.plugins
import pumice.testing
from pumice.client.run_options.kinds import Pathlike
from pumice.client.run_options.table import Options
from pumice.client.sync_client import ForwardedPort
from pumice.diagnosis.verdict import ActedPolicy, FailedPod
from pumice.diagnosis.why import Hint, Holder, WhyCode
from pumice.model.problem import Position, Problem
from pumice.store.run_record import PodCounts
from pumice.store.sample_file import Sample

_INTRODUCTION = """\
# `import pumice`

What a program may rely on: the names in `pumice.__all__`, `pumice.plugins` and `pumice.testing`. Everything else may
move. Before 1.0 every change is in the [changelog](../../CHANGELOG.md); from 1.0 a name is removed only two minor
releases after a `DeprecationWarning`. Values may gain fields, and enumerations members. The guide is
[Pumice from Python](../guides/pumice-from-python.md).
"""
_ASYNC_PAIRS = """\
`AsyncClient`, `AsyncRun` and `AsyncOwnedRun` have the same methods, awaited; their `logs` and `events` return
asynchronous iterators.
"""
_TESTING = """\
`pytest_plugins = ["pumice.testing"]` in your conftest.py gives the fixture `pumice_client`: a `Client` with records of
its own. At the end of the test its runs are stopped.
"""
_FOR_PLUGINS = ("Admitted", "Base", "Context", "Path", "Pod", "Slot", "admit", "discover", "env_values", "option")
# What values consist of.
_PARTS = (ActedPolicy, FailedPod, PodCounts, Hint, Holder, WhyCode, Sample, Problem, Position)
_WIDTH = 110
_HANDLES = ("Client", "Run", "OwnedRun")
_JOBS = ("Job", "Policy")


def page() -> str:
    kinds = {name: getattr(pumice, name) for name in pumice.__all__}
    functions = [name for name, each in kinds.items() if inspect.isfunction(each) and name not in _FOR_PLUGINS]
    errors = [each for each in kinds.values() if inspect.isclass(each) and issubclass(each, Exception)]
    special = {*_FOR_PLUGINS, *_HANDLES, *_JOBS, *(f"Async{name}" for name in _HANDLES)}
    values = [each for name, each in kinds.items() if name not in special and _is_value(each)]
    parts = [
        _INTRODUCTION,
        "## Functions\n",
        *(_function(name, kinds[name]) for name in sorted(functions)),
        "## Options of `run`, `start` and `submit`\n",
        "Each has the name of its flag; [`pumice run`](commands.md#pumice-run) describes them.\n",
        _block([f"{name}: {_accepted(kind)}" for name, kind in get_type_hints(Options).items()]),
        "## Handles\n",
        _ASYNC_PAIRS,
        *(_handle(kinds[name]) for name in _HANDLES),
        _handle(ForwardedPort),
        "## Values\n",
        *(_value(each) for each in sorted((*values, *_PARTS), key=lambda each: each.__name__)),
        "## Jobs\n",
        "The fields are those of [the Job](job.md), in snake case.\n",
        _block(_methods(pumice.Job, ("to_yaml",))),
        "## Errors\n",
        _block(_tree(pumice.PumiceError, errors)),
        "## `pumice.plugins`\n",
        *(_plugin(getattr(pumice.plugins, name)) for name in pumice.plugins.__all__ if name not in ("Base", "option")),
        "## `pumice.testing`\n",
        _TESTING,
        "## For authors of plugins\n",
        ", ".join(f"`{name}`" for name in _FOR_PLUGINS) + "; see [the guide](../guides/write-a-plugin.md).\n",
    ]
    return "\n".join(parts)


def _accepted(kind: Any) -> str:
    """The type of an option, as a program would write it."""
    if isinstance(kind, type):
        return kind.__name__
    return str(kind).replace(str(Pathlike), "Pathlike").replace("collections.abc.", "").replace("typing.", "")


def _is_value(kind: object) -> bool:
    return inspect.isclass(kind) and (
        issubclass(kind, msgspec.Struct | enum.Enum) or (dataclasses.is_dataclass(kind) and kind is not pumice.Base)
    )


def _function(name: str, function: Callable[..., object]) -> str:
    return f"### `{name}`\n\n{_block([_signature(name, function)])}\n{inspect.getdoc(function)}\n"


def _handle(kind: type) -> str:
    head = _signature(kind.__name__, kind) if kind is pumice.Client else f"class {kind.__name__}"
    methods = "\n".join(_methods(kind, [name for name in vars(kind) if name[0] != "_"]))
    lines = [head, *(f"    {line}" for line in methods.splitlines())]
    return f"### `{kind.__name__}`\n\n{inspect.getdoc(kind)}\n\n{_block(lines)}"


def _methods(kind: type, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        found = inspect.getattr_static(kind, name)
        if isinstance(found, property):
            yield f"{name}: {_annotations(kind)[name]}"
        else:
            yield _signature(name, found)


def _signature(name: str, function: Callable[..., object]) -> str:
    """The signature on one line, or with a line per parameter."""
    found = inspect.signature(function)
    given = [each for each in found.parameters.values() if each.name != "self"]
    texts = [_unquoted(str(each)) for each in given]
    star = next((at for at, each in enumerate(given) if each.kind is each.KEYWORD_ONLY), len(given))
    if star < len(given) and not any(each.kind is each.VAR_POSITIONAL for each in given):
        texts.insert(star, "*")
    returned = found.return_annotation
    result = returned if isinstance(returned, str) else inspect.formatannotation(returned)
    text = f"{name}({', '.join(texts)}) -> {result}"
    if len(text) <= _WIDTH:
        return text
    return "\n".join((f"{name}(", *(f"    {each}," for each in texts), f") -> {result}"))


def _unquoted(parameter: str) -> str:
    """Annotations are texts; the default of a signal is a number."""
    text = re.sub(r": '(.*?)'(?= = |$)", lambda match: f": {match[1]}", parameter).replace("Unpack[Options]", "Options")
    return re.sub(r"<Signals\.(\w+): \d+>", lambda match: f"signal.{match[1]}", text)


def _value(kind: type) -> str:
    if issubclass(kind, enum.Enum):
        lines = [f"{each.name} = {each.value!r}" for each in kind]
    else:
        names = getattr(kind, "__struct_fields__", None) or tuple(getattr(kind, "__dataclass_fields__", {}))
        annotations = {name: each for base in reversed(kind.__mro__) for name, each in _annotations(base).items()}
        lines = [f"{name}: {annotations[name]}" for name in names]
        lines += [
            f"{name}: {annotations[name]}  # property"
            for name, each in vars(kind).items()
            if isinstance(each, property) and name[0] != "_"
        ]
    own = str(vars(kind).get("__doc__") or "")
    text = "" if own.startswith(f"{kind.__name__}(") else inspect.cleandoc(own)
    return "\n\n".join(filter(None, (f"### `{kind.__name__}`", text, _block(lines))))


def _annotations(kind: type) -> dict[str, str]:
    """The types of fields and properties as the code spells them; some modules evaluate them when they load."""
    if not kind.__module__.startswith("pumice."):
        return {}
    [found] = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    types: dict[str, str] = {}
    for each in found.body if isinstance(found, ast.ClassDef) else ():
        if isinstance(each, ast.AnnAssign):
            types[ast.unparse(each.target)] = ast.unparse(each.annotation)
        elif isinstance(each, ast.FunctionDef) and each.returns is not None:
            types[each.name] = ast.unparse(each.returns)
    return types


def _tree(root: type, errors: Sequence[type]) -> Iterator[str]:
    """The tree of the public errors; classes in between are private."""

    def parent(kind: type) -> type:
        return next(each for each in kind.__mro__[1:] if each in errors)

    def lines(kind: type, depth: int) -> Iterator[str]:
        builtin = [each.__name__ for each in kind.__mro__ if each in (LookupError, TimeoutError, OSError)]
        own = ", ".join(name for name in ("findings", "shortages", "result") if _has(kind, name))
        first = (inspect.getdoc(kind) or "").partition("\n")[0]
        name = f"{kind.__name__}{f'({own})' if own else ''}{f' ({builtin[0]})' if builtin else ''}"
        yield f"{'  ' * depth}{name}: {first}"
        for each in sorted((each for each in errors if each is not root and parent(each) is kind), key=_name):
            yield from lines(each, depth + 1)

    return lines(root, 0)


def _has(kind: type, name: str) -> bool:
    parameters = inspect.signature(kind.__init__).parameters  # type: ignore[misc] # of a class, not of an instance
    return name in parameters or name in vars(kind)


def _name(kind: type) -> str:
    return kind.__name__


def _plugin(kind: type[pumice.Base]) -> str:
    fields = [f"{each.name}: {each.type} = {each.default!r}" for each in dataclasses.fields(kind)]
    return f"### `{kind.__name__}`\n\n{kind.summary}\n\n{_block(fields or ['no options'])}"


def _block(lines: Sequence[str] | Iterator[str]) -> str:
    return "\n".join(("```text", *lines, "```")) + "\n"
