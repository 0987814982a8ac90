"""How a run with pods ended: the verdict with its log, and what its first pod missed of this machine."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from pumice.diagnosis.failure_lines import missing_module
from pumice.diagnosis.failures import Failure
from pumice.diagnosis.verdict import Evidence, FailedPod, Verdict, judge
from pumice.engines.local.host_access.access import is_within
from pumice.engines.local.host_access.consent import consent_facts
from pumice.engines.local.kubelet.pod import LocalPod
from pumice.engines.local.preparation.default_settings import python_with
from pumice.engines.local.preparation.reservation import Reservation
from pumice.engines.local.preparation.run_plan import Plan
from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.store.run_end import RunEnded, Stop, stop_reason
from pumice.store.settings import Settings

_QUOTED: Final = re.compile(r"""(['"`])(/[^'"`\n]+)\1""")
_PLAIN: Final = re.compile(r"""(?<![\w.:/~@%-])/[^\s'"`:;,()\[\]<>|&]+""")
_MOST: Final = 10
_OF_POD: Final = tuple(map(Path, ("/dev", "/proc", "/run", "/sys")))


def live_outcome(
    plan: Plan, held: Reservation, pods: Iterable[LocalPod], evidence: Evidence, stop: Stop | None
) -> RunEnded:
    """Return the outcome of a run with these pods."""
    verdict = judge(replace(evidence, stop=stop_reason(stop)), plan.request.source)
    outcome = RunEnded(
        job=evidence.job,
        verdict=None if verdict is None else _with_log(verdict, held),
        stop=stop,
        kept=held.kept(),
        directory=evidence.directory,
        python=plan.settings.python_text,
    )
    if outcome.verdict is not None and (resume := outcome.resume_command):
        outcome = replace(outcome, verdict=replace(outcome.verdict, next=resume))
    blamed = evidence.failures[0] if evidence.failures else evidence.earlier
    if blamed is None:
        return outcome
    spec = next((each.spec for each in pods if each.uid == blamed.pod.uid), None)
    spec = spec or next((each["spec"] for each in plan.manifests if each["metadata"]["name"] == blamed.pod.name), {})
    return _with_missed_files(outcome, held, spec, blamed)


def _with_log(verdict: Verdict, held: Reservation) -> Verdict:
    """Add the log of the pod to blame, and the command that shows it; of all pods if none failed."""
    blamed = verdict.blamed
    if blamed is None:
        return replace(verdict, next=_look(held, None)) if verdict.doing else verdict
    path = held.files.newest_log(blamed.pod, blamed.container)
    attempt = blamed.attempt if blamed is verdict.earlier else 0
    command = _look(held, blamed, attempt) if path is not None and path.stat().st_size else ""
    return replace(verdict, log=str(path or ""), next=command)


def _look(held: Reservation, blamed: FailedPod | None, attempt: int = 0) -> str:
    """Return the command that shows the last lines of a pod; of all pods if none failed."""
    namespace = held.owned.run.record.namespace
    words = ["pumice", "logs", held.ref + (f"/{blamed.pod}" if blamed is not None else "")]
    words += ["-n", namespace] if namespace != "default" else []
    if blamed is not None:
        words += ["-c", blamed.container] if blamed.container != blamed.task else []
        words += ["--attempt", str(attempt)] if attempt else []
    return shlex.join([*words, "--tail", "30"])


def _with_missed_files(outcome: RunEnded, held: Reservation, spec: Manifest, blamed: Failure) -> RunEnded:
    """Add which files of this machine the container missed, and whether it had an image."""
    settings, end = held.inputs.settings, blamed.end
    container = next((each for each in all_containers(spec) if each["name"] == end.container), {})
    image, directory = str(container.get("image") or ""), str(container.get("workingDir") or "")
    mounts = [str(each["mountPath"]) for one in all_containers(spec) for each in one.get("volumeMounts") or []]
    here = settings.workdir if settings.share_workdir else None
    missed = beside = ""
    if directory:
        found = directory_with_missed_file(end.last_line, directory, filter(None, [here]))
        missed = directory if found is not None else ""
    else:
        directories = [settings.project] if settings.project not in (None, here) else []
        beside = str(directory_with_missed_file(end.last_line, str(here or "/"), directories) or "")
    missing = "" if held.images.of(image) is not None else missing_module(end.last_line)
    return replace(
        outcome,
        python_with=python_with(missing, os.environ, settings.project) if missing else "",
        unshared=unshared_path(end.last_line, settings, mounts, os.environ),
        misses_workdir=missed,
        misses_project=beside,
        host_image=image if held.images.of(image) is None else "",
    )


def directory_with_missed_file(line: str, cwd: str, directories: Iterable[Path]) -> Path | None:
    """Return the first directory that has the file which a line of output names below the container's own directory.

    The image of a cluster has the program there; on this machine it is in a checkout, or beside the Job file.
    """
    below = [path.relative_to(cwd) for path in _named_paths(line) if path.is_relative_to(cwd) and path != Path(cwd)]
    return next((each for each in directories if any((each / path).exists() for path in below)), None)


def _named_paths(line: str) -> list[Path]:
    """The absolute paths in a line of output. One in quotes may have spaces."""
    words = [match[2] for match in _QUOTED.finditer(line)]
    words += [match[0].rstrip(".!?") for match in _PLAIN.finditer(_QUOTED.sub("", line))]
    return [Path("/", os.path.normpath(word).lstrip("/")) for word in words[:_MOST]]


def unshared_path(line: str, settings: Settings, inside: Iterable[str], environ: Mapping[str, str]) -> str:
    """Return the first path in a line of output that exists here and is not shared; empty if there is none.

    `inside` are the paths of the container's volumes, where the same path means something else.
    """
    paths = _named_paths(line)
    if not paths:
        return ""
    facts = consent_facts(settings, environ)
    never = (*_OF_POD, *facts.private, *facts.credentials)
    seen = (*facts.visible, *facts.writable, *map(Path, inside), *(each.target for each in settings.mounts))
    for path in paths:
        real = Path(os.path.realpath(path))
        shared = is_within(real, (*never, *seen)) or is_within(path, seen)
        if len(path.parts) > len(Path("/x").parts) and os.path.lexists(path) and not shared:
            return str(path)
    return ""
