"""Builds docs/reference/plugins/: a page per plugin, from its declarations and a job rendered with and without it."""

from __future__ import annotations

import ast
import inspect
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, cast

import msgspec

from pumice.admission.admit import Admitted
from pumice.cli.offline.plugins import default_text
from pumice.client.job_files import as_stored, load, render
from pumice.model.job import Job, Manifest
from pumice.model.slot import Slot
from pumice.plugins import limits
from pumice.plugins.arguments import Option
from pumice.plugins.base import Base
from pumice.plugins.provenance import Trace, trace_pod
from pumice.runtime.offline_context import offline_context
from pumice.yaml.writer import write_yaml
from scripts.docs_text import code, fenced, plain, sentence, table

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# The example of a plugin, if it is not named after the plugin.
SHOWN_BY = {"pytorch": "pytorch-job.yaml"}
LONGEST_VALUE: Final = 160
UNKNOWN: Final = "…"

SPELLINGS = """\
An argument is one string of the list. `--name=value`, `--name value`, `-name=value` and `-name value` are equivalent. A
boolean without a value (`--name`) is true; another value needs `=`. Names in camelCase work with and without dashes.
"""
KINDS = {
    "env": "variable",
    "port": "port",
    "mount": "mount",
    "init": "init container",
    "volume": "volume",
    "command": "command",
    "annotation": "annotation",
    "label": "label",
}


def overview(plugins: Sequence[type[Base]]) -> str:
    rows = [(f"[{p.name}]({p.name}.md)", sentence(p.summary), _linked(p.requires) or "-") for p in plugins]
    order = ", ".join(plugin.name for plugin in plugins)
    return (
        "# Plugins\n\nA job enables a plugin by its name under `spec.plugins`. A plugin also enables the plugins that "
        "it needs.\n\n"
        + table(("Plugin", "What it does", "Needs"), rows)
        + f"\nPlugins run in this order, regardless of the file: {order}, then third-party plugins by name.\n"
    )


def page(plugin: type[Base]) -> str:
    file = EXAMPLES / SHOWN_BY.get(plugin.name, f"{plugin.name}-plugin.yaml")
    [entry] = load(str(file), offline_context()).jobs
    job = as_stored(entry.admitted)
    sections = [
        f"# {plugin.name}\n",
        f"{sentence(plugin.summary)}\n",
        f"{_docstring(plugin)}\n",
        _needs(plugin),
        f"## Arguments\n\n{_arguments(plugin)}",
        f"## Example\n\n[examples/{file.name}](../../../examples/{file.name})\n\n"
        + fenced("yaml", file.read_text(encoding="utf-8")),
        f"## What it adds to the pods of the example\n\n{_additions(job, entry.admitted, plugin)}",
        f"## Objects of the example\n\n{_objects(entry.admitted, plugin)}",
        f"## Findings of `pumice validate`\n\n{_findings(plugin)}",
    ]
    return "\n".join(filter(None, sections))


def _docstring(plugin: type[Base]) -> str:
    """Return the docstring of the plugin's module without its first line, which the summary repeats."""
    text = inspect.getdoc(sys.modules[plugin.__module__]) or ""
    return plain(text.partition("\n")[2].strip())


def _needs(plugin: type[Base]) -> str:
    if not plugin.requires:
        return ""
    return f"Needs {_linked(plugin.requires)}, and enables it if the job does not.\n"


def _linked(names: Sequence[str]) -> str:
    return " and ".join(f"[{name}]({name}.md)" for name in names)


def _arguments(plugin: type[Base]) -> str:
    rows = [
        (code(f"--{o.flag}"), o.type.__name__.replace("str", "string"), _default(o), _meaning(o), _others(o))
        for o in plugin.options()
    ]
    if not rows:
        return "None.\n"
    return table(("Name", "Type", "Default", "Meaning", "Other spellings"), rows) + "\n" + SPELLINGS


def _default(option: Option) -> str:
    text = default_text(option)
    return "-" if text == "-" else code(text)


def _meaning(option: Option) -> str:
    bounds = {(True, True): f" ({option.low} to {option.high})", (True, False): f" ({option.low} or more)"}
    secret = " (printed only with `--show-secrets`)" if option.secret else ""
    return plain(option.help) + bounds.get((option.low is not None, option.high is not None), "") + secret


def _others(option: Option) -> str:
    names = [name for name in dict.fromkeys(option.names) if name != option.flag]
    return ", ".join(code(f"--{name}") + (f", {code(name)}" if name != name.lower() else "") for name in names) or "-"


def _additions(job: Job, admitted: Admitted, plugin: type[Base]) -> str:
    """Return one table for the first pod of each task, or one sentence if the plugin does not change it."""
    parts = []
    for position, task in enumerate(job.spec.tasks):
        slot = Slot(job, task, 0)
        added = [trace for trace in trace_pod(slot, position, admitted.plugins) if trace.by == plugin.name]
        heading = f"`{slot.pod_name}`:"
        rows = [(_kind(trace), code(trace.name), code(_short(trace.value)), trace.why) for trace in added]
        body = table(("What", "Name", "Value", "Why"), rows) if rows else "nothing.\n"
        parts.append(f"{heading}\n\n{body}" if rows else f"{heading} {body}")
    return "\n".join(parts)


def _kind(trace: Trace) -> str:
    kind = KINDS.get(trace.kind, trace.kind)
    return f"{kind} of container {code(trace.container)}" if trace.container else kind


def _short(value: str) -> str:
    first = value.splitlines()[0] if value else ""
    shown = first if len(first) <= LONGEST_VALUE else first[:LONGEST_VALUE]
    return shown if shown == value else f"{shown} ..."


def _objects(admitted: Admitted, plugin: type[Base]) -> str:
    """Return the objects that exist only because of the plugin, and its additions to other objects."""
    others = tuple(other for other in admitted.plugins if other.name != plugin.name)
    without = {_identity(m): m for m in render(msgspec.structs.replace(admitted, plugins=others))}
    parts = []
    for manifest in render(admitted):
        before = without.get(_identity(manifest))
        if before is None:
            parts.append(fenced("yaml", _yaml(_without_owner(manifest))))
        elif manifest["kind"] != "Pod" and before != manifest:
            added = {key: value for key, value in manifest["data"].items() if key not in before["data"]}
            name = manifest["metadata"]["name"]
            parts.append(f"Added to {manifest['kind']} `{name}`:\n\n" + fenced("yaml", _yaml({"data": added})))
    return "\n".join(parts) or "None.\n"


def _identity(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _without_owner(manifest: Manifest) -> Manifest:
    metadata = {key: value for key, value in manifest["metadata"].items() if key != "ownerReferences"}
    return {**manifest, "metadata": metadata}


def _yaml(manifest: Manifest) -> str:
    out = io.StringIO()
    write_yaml([manifest], out)
    return out.getvalue()


def _findings(plugin: type[Base]) -> str:
    module = sys.modules[plugin.__module__]
    calls = list(_calls(module))
    lines = [_finding(call, vars(module)) for call in calls if call.func.id in ("Finding", "warning")]
    if any(call.func.id == "too_long" for call in calls):
        names = {**vars(limits), "variable": vars(module)["VARIABLE"]}
        lines += [_finding(call, names) for call in _calls(limits) if call.func.id == "Finding"]
    about_arguments = "Unknown arguments and invalid values are errors; the hint suggests a corrected list.\n"
    return "".join([about_arguments, "\n" if lines else "", *lines])


class _NamedCall(ast.Call):
    """A call of a function by its plain name."""

    func: ast.Name


def _calls(module: ModuleType) -> Iterator[_NamedCall]:
    nodes = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Call)]
    for node in sorted(nodes, key=lambda node: node.lineno):
        if isinstance(node.func, ast.Name):
            yield cast(_NamedCall, node)


def _finding(call: _NamedCall, names: dict[str, object]) -> str:
    """Return the message of a finding, with an ellipsis for values that are known only at run time."""
    return f"- {call.func.id.replace('Finding', 'error')}: {plain(_message(call.args[1], names))}\n"


def _message(node: ast.expr, names: dict[str, object]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_message(part, names) for part in node.values)
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name):
        value = names.get(node.value.id)
        return str(value) if isinstance(value, str | int) else UNKNOWN
    return UNKNOWN
