"""Lists in pod templates whose items must have unique keys.

Kubernetes accepts such a pod (the last of two variables counts) but refuses the Job, because Volcano's CRD declares
these lists as maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import SPEC, Finding, Path
from pumice.model.job import Job

_OF_PODS: Final[dict[str, tuple[str, ...]]] = {"imagePullSecrets": ("name",), "hostAliases": ("ip",)}
_OF_CONTAINERS: Final[dict[str, tuple[str, ...]]] = {"env": ("name",), "ports": ("containerPort", "protocol")}
_DEFAULTS: Final = {("ports", "protocol"): "TCP", ("imagePullSecrets", "name"): ""}


def check_duplicate_items(job: Job) -> Iterator[Finding]:
    for position, task in enumerate(job.spec.tasks):
        spec = View(task.template, SPEC / "tasks" / position / "template").part("spec")
        for field, keys in _OF_PODS.items():
            yield from _check_list(spec, field, keys)
        for container in spec.containers():
            for field, keys in _OF_CONTAINERS.items():
                yield from _check_list(container, field, keys)
            # Report two requests of one claim; the rules of pods report a claim or request that is used twice.
            resources = container.part("resources")
            first: dict[str, View] = {}
            for claim in resources.children("claims"):
                name = claim.text("name")
                parts = [each.text("request") for each in (claim, first.get(name, claim))]
                if all(parts) and parts[0] != parts[1]:
                    yield _duplicate(claim.at, first[name].at, name)
                first.setdefault(name, claim)
            for rule in container.children("restartPolicyRules"):
                yield from _check_codes(rule.part("exitCodes"))


def _check_list(view: View, field: str, keys: tuple[str, ...]) -> Iterator[Finding]:
    first: dict[str, Path] = {}
    for item in view.children(field):
        values = [item.get(key) or _DEFAULTS.get((field, key)) for key in keys]
        # Other rules report a missing key.
        if None in values:
            continue
        identity = "/".join(map(str, values))
        if identity in first:
            yield _duplicate(item.at, first[identity], identity)
        first.setdefault(identity, item.at)


def _check_codes(codes: View) -> Iterator[Finding]:
    first: dict[int, Path] = {}
    for at, code in codes.numbers("values"):
        if code in first:
            yield _duplicate(at, first[code], code)
        first.setdefault(code, at)


def _duplicate(at: Path, first: Path, value: object) -> Finding:
    return Finding(at, f"duplicates {first}", value, hint="keep one of them")
