"""Limits on the size of a Job, checked before anything else: one Job must not exhaust the controller or the webhook.

The work of admission and the memory of a decoded Job grow with the number of its values, and some parts multiply: every
container mounts every volume of `spec.volumes`. A Job beyond a limit gets the findings of this module only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pumice.model.findings import ROOT, SPEC, Finding

MOST_VALUES: Final = 20_000
MOST_TEXT: Final = 512 * 1024
MOST_TASKS: Final = 1000
MOST_CONTAINERS: Final = 100
MOST_MOUNTS: Final = 20_000
MOST_ARGUMENTS: Final = 100
_NOT_COUNTED: Final = ("status",)


def check_size(document: Mapping[str, Any], most_values: int = MOST_VALUES) -> list[Finding]:
    """Check a Job that is not decoded yet, so that parts of the wrong type count as well."""
    return [*_check_spec(document.get("spec")), *_check_total(document, most_values)]


def _check_spec(spec: object) -> list[Finding]:
    if not isinstance(spec, Mapping):
        return []
    tasks, volumes, plugins = _list(spec.get("tasks")), _list(spec.get("volumes")), spec.get("plugins")
    if len(tasks) > MOST_TASKS:
        return [Finding(SPEC / "tasks", f"{len(tasks)} tasks: a Job may have at most {MOST_TASKS}")]
    found = []
    containers = [sum(len(_list(_pod_spec(task).get(field))) for field in _CONTAINERS) for task in tasks]
    for position, count in enumerate(containers):
        if count > MOST_CONTAINERS:
            at = SPEC / "tasks" / position / "template" / "spec"
            message = f"{count} containers and init containers: a pod may have at most {MOST_CONTAINERS}"
            found.append(Finding(at / "containers", message))
    if sum(containers) * len(volumes) > MOST_MOUNTS:
        message = f"every container mounts every volume: {sum(containers)} containers x {len(volumes)} volumes are "
        message += f"{sum(containers) * len(volumes)} mounts, a Job may have at most {MOST_MOUNTS}"
        hint = "mount volumes in the templates of the tasks that use them"
        found.append(Finding(SPEC / "volumes", message, hint=hint))
    for name, arguments in plugins.items() if isinstance(plugins, Mapping) else ():
        count = len(_list(arguments))
        if count > MOST_ARGUMENTS:
            message = f"{count} arguments: a plugin takes at most {MOST_ARGUMENTS}"
            found.append(Finding(SPEC / "plugins" / str(name), message))
    return found


_CONTAINERS: Final = ("containers", "initContainers")


def _check_total(document: Mapping[str, Any], most_values: int) -> list[Finding]:
    values, text = 0, 0
    left: list[object] = [value for key, value in document.items() if key not in _NOT_COUNTED]
    while left and values <= most_values:
        value = left.pop()
        if isinstance(value, Mapping):
            values += len(value)
            text += sum(len(key) for key in value if isinstance(key, str))
            left += [item for key, item in value.items() if key != "managedFields"]
        elif isinstance(value, list):
            values += len(value)
            left += value
        elif isinstance(value, str):
            text += len(value)
    found = []
    if values > most_values:
        message = f"the Job has more than {most_values} fields and list items"
        found.append(Finding(ROOT, message, hint="split it into several Jobs"))
    if text > MOST_TEXT:
        message = f"the Job has {text} characters of text, at most {MOST_TEXT} are accepted"
        found.append(Finding(ROOT, message, hint="put scripts and data into a ConfigMap or an image"))
    return found


def _pod_spec(task: object) -> Mapping[str, Any]:
    template = task.get("template") if isinstance(task, Mapping) else None
    spec = template.get("spec") if isinstance(template, Mapping) else None
    return spec if isinstance(spec, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
