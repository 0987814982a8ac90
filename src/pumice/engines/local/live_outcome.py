"""The phases of a run with pods, and how it ended: the verdict with its log, and what its first pod missed here."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from pumice.diagnosis.failure_lines import missing_module
from pumice.diagnosis.failures import Failure, Failures
from pumice.diagnosis.verdict import Evidence, FailedPod, Verdict, judge
from pumice.engines.local.engine import LocalEngine
from pumice.engines.local.host_access.consent import consent_facts, is_within
from pumice.engines.local.kubelet.pod import LocalPod
from pumice.engines.local.preparation.default_settings import python_with
from pumice.engines.local.preparation.reservation import Reservation
from pumice.engines.local.preparation.run_plan import Plan
from pumice.model.job import Job, JobStatus, Manifest
from pumice.model.pod import all_containers
from pumice.model.vocabulary import Action, Event, Phase
from pumice.reconcile.consequences import acted_policy
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.ledger import most_attempts
from pumice.reconcile.phases import AT_REST
from pumice.store.events import Emitter, PhaseChanged
from pumice.store.options import Locate
from pumice.store.run_end import RunEnded, Stop, stop_reason
from pumice.store.settings import Settings

_QUOTED_PATH: Final = re.compile(r"""(['"`])(/[^'"`\n]+)\1""")
_PLAIN_PATH: Final = re.compile(r"""(?<![\w.:/~@%-])/[^\s'"`:;,()\[\]<>|&]+""")
_MOST_PATHS: Final = 10
_SYSTEM_OF_POD: Final = tuple(map(Path, ("/dev", "/proc", "/run", "/sys")))


class JobProgress(Struct):
    """Follows the passes of the loop: emits the job's phases, and knows when it first ran and when it has ended."""

    emit: Emitter
    policy: JobEvent | None = None  # that acted last in the current attempt
    cause: str = ""  # why the job is in its phase
    first_running: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _phase: str = ""
    _attempt: int = 1

    def on_pass(self, engine: LocalEngine, events: Sequence[JobEvent]) -> None:
        status = engine.job.status
        acted = next((event for event in events if event.policy), None)
        self.policy = acted or self.policy
        self.cause = next((event.cause for event in events if event.cause), self.cause)
        if acted is not None or status.state.phase != self._phase:
            self._phase = status.state.phase
            if self._phase == Phase.PENDING:
                self._attempt = status.retry_count + 1
                # The policy that led to this attempt does not end it.
                self.policy, self.cause = None, ""
            self.emit(PhaseChanged(engine.job, status, self._attempt, acted, self.cause))
        if status.state.phase == Phase.RUNNING:
            self.first_running.set()
        if status.state.phase in AT_REST and all(pod.observed().is_finished for pod in engine.pods.values()):
            self.ended.set()

    def evidence(self, engine: LocalEngine, known: Failures, locate: Locate) -> Evidence:
        """Return what the verdict follows from, as far as the job and its pods say it."""
        acted = self.policy
        return Evidence(
            job=engine.job,
            failures=known.in_order(),
            succeeded=known.succeeded(),
            addresses={pod.short_name: pod.address for pod in engine.pods.values()},
            restarted=known.restarted(),
            earlier=known.earlier,
            policy=None if acted is None else acted_policy(acted, locate(acted.policy)),
            cause=self.cause,
            max_attempts=most_attempts(engine.job.spec.max_retry, engine.job.status),
        )


def waits_in_vain(job: Job, status: JobStatus) -> str:
    """Say what a job waits for if no pod runs and none will: a task depends on others that failed, and no policy acts.

    On a cluster such a job waits forever, as in Volcano. A user at a terminal wants to know what would end it.
    """
    alive = status.pending + status.running + status.terminating + status.unknown
    if status.state.phase not in (Phase.PENDING, Phase.RUNNING) or alive or not status.failed:
        return ""
    for task in job.spec.tasks:
        if task.depends_on is not None and task.replicas and task.name not in status.task_status_count:
            names = ", ".join(task.depends_on.name)
            return (
                f"{task.name} waits for {names}, and no pod runs any more: {status.failed} failed\n"
                f"  hint: a policy {{event: {Event.POD_FAILED}, action: {Action.TERMINATE_JOB}}} would end the job;"
                " Ctrl-C ends it now"
            )
    return ""


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
    words = [match[2] for match in _QUOTED_PATH.finditer(line)]
    words += [match[0].rstrip(".!?") for match in _PLAIN_PATH.finditer(_QUOTED_PATH.sub("", line))]
    return [Path("/", os.path.normpath(word).lstrip("/")) for word in words[:_MOST_PATHS]]


def unshared_path(line: str, settings: Settings, inside: Iterable[str], environ: Mapping[str, str]) -> str:
    """Return the first path in a line of output that exists here and is not shared; empty if there is none.

    `inside` are the paths of the container's volumes, where the same path means something else.
    """
    paths = _named_paths(line)
    if not paths:
        return ""
    facts = consent_facts(settings, environ)
    never = (*_SYSTEM_OF_POD, *facts.private, *facts.credentials)
    seen = (*facts.visible, *facts.writable, *map(Path, inside), *(each.target for each in settings.mounts))
    for path in paths:
        real = Path(os.path.realpath(path))
        shared = is_within(real, (*never, *seen)) or is_within(path, seen)
        if len(path.parts) > len(Path("/x").parts) and os.path.lexists(path) and not shared:
            return str(path)
    return ""
