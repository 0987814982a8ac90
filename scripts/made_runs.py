"""Writes runs without running anything, by the classes of the store: with times, logs and samples of a story.

For tests and pictures of the page, and for its benchmark: `scripts/made_stories.py` has the stories.
"""

from __future__ import annotations

import datetime as dt
import math
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from pumice.admission.admit import Admitted
from pumice.client.job_files import as_stored
from pumice.client.loading import load, origin_of
from pumice.diagnosis.failures import Failures
from pumice.diagnosis.verdict import Evidence, judge
from pumice.engines.local.preparation.new_record import gang_pods
from pumice.engines.local.preparation.scaling import gang
from pumice.engines.local.runs import Recorder
from pumice.model.findings import Path as JobPath
from pumice.model.job import Job, JobState, JobStatus, Manifest
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.plugins.shaping import pods
from pumice.reconcile.consequences import acted_policy
from pumice.reconcile.decision import JobEvent
from pumice.store.events import ContainerRestarted, PhaseChanged, PodChanged, RunPlanned
from pumice.store.files.atomic_files import replace_file
from pumice.store.files.owner_lock import OwnerLock, boot_id
from pumice.store.files.run_directory import RunDirectory
from pumice.store.files.run_store import STATUS, RunStore, StoredRun
from pumice.store.files.state_directory import host_name
from pumice.store.history.stored_history import StoredHistory
from pumice.store.job_source import JobSource
from pumice.store.journal import Journal, SequenceNumbers
from pumice.store.logs.log_file import LogFile
from pumice.store.run_end import RunEnded
from pumice.store.run_record import DETACHED, RunRecord, RunStatus
from pumice.store.sample_file import SampledPod, SampleWriter, Usage
from scripts.made_jobs import JOBS

_SAMPLE: Final = 10.0  # seconds


@dataclass(frozen=True, slots=True)
class Ends:
    """How a pod ends, and how many seconds after its attempt began."""

    pod: str
    after: float
    code: int = 0
    line: str = ""
    reason: str = ""
    restart: bool = False  # the container starts again


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt. Without `seconds` it is still running."""

    seconds: float | None
    ends: Sequence[Ends] = ()
    policy: JobPath | None = None  # that acted at its end
    late: Mapping[str, float] = field(default_factory=dict)  # seconds after which pods start; without, a moment


@dataclass(frozen=True, slots=True)
class Story:
    """`job` is a key of JOBS. `phase` is the last one; Pending: it waits for its room."""

    job: str
    tries: Sequence[Try] = ()
    phase: str = "Completed"
    ago: float = 3600.0  # seconds since it was made
    waited: float = 2.0
    message: str = ""
    lines: Callable[[str, int], Sequence[tuple[float, str, str]]] = lambda _pod, _attempt: ()  # time, stream, text
    samples: Callable[[str, int, float], Usage] | None = None
    note: str = ""
    text: str = ""  # of the Job file, if not that of JOBS
    unenforced: Mapping[str, Sequence[str]] = field(default_factory=dict)  # limits, as RunPlanned has them


@dataclass(slots=True)
class RunMaker:
    """Keeps the locks of active runs, which so have an owner while this process lives."""

    store: RunStore
    files: Path  # where the Job files are written
    now: dt.datetime
    locks: list[OwnerLock] = field(default_factory=list)

    def make(self, story: Story) -> StoredRun:
        path = self.files / f"{story.job}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(story.text or JOBS[story.job], encoding="utf-8")
        origin = origin_of(load(path))
        uid = str(uuid.uuid4())
        job = as_stored(origin.admitted, uid=uid)
        created = self.now - dt.timedelta(seconds=story.ago)
        directory = self.store.reserve(job.namespace, job.name)
        record = _record(
            origin.admitted,
            job,
            directory,
            JobSource(path.name, origin.source.marks, origin.source.text, origin.source.first),
            created,
        )
        record = msgspec.structs.replace(record, workdir=str(self.files), note=story.note)
        owned = self.store.create(directory, record)
        if story.tries:
            _Recording(story, owned.run, origin.admitted, job, created + dt.timedelta(seconds=story.waited)).write()
        else:
            status = RunStatus(arrival=1 + int(story.ago), held=created)
            replace_file(directory / STATUS, msgspec.json.encode(status))
        if story.phase in ("Running", "Restarting"):
            self.locks.append(owned.lock)
        else:
            owned.lock.release()
            if story.phase not in ("Pending", "Aborted"):
                self.store.finish(owned.run)
        return owned.run


def _record(admitted: Admitted, job: Job, directory: Path, source: JobSource, created: dt.datetime) -> RunRecord:
    manifests = [pod.manifest for pod in pods(job, admitted.plugins)]
    written = msgspec.to_builtins(msgspec.structs.replace(admitted.written, metadata=job.metadata))
    return RunRecord(
        uid=job.uid,
        namespace=job.namespace,
        name=job.name,
        number=int(directory.name),
        host=host_name(),
        boot=boot_id(),
        created=created,
        job=written,
        mode=DETACHED,
        file=source.file,
        marks=source.plain(),
        gang=gang_pods(gang(job, manifests)),
        python=sys.executable,
        version="0.1.0",
    )


@dataclass(slots=True)
class _Recording:
    """Writes what a run would have written. Everything happens in the order of time, as in a real one."""

    story: Story
    run: StoredRun
    admitted: Admitted
    job: Job
    time: dt.datetime
    numbers: SequenceNumbers = field(default_factory=SequenceNumbers)
    pods: dict[str, ObservedPod] = field(default_factory=dict)
    logs: dict[str, LogFile] = field(default_factory=dict)
    failures: Failures = field(default_factory=Failures)
    acted: JobEvent | None = None
    recorder: Recorder = field(init=False)
    began: dt.datetime = field(init=False)

    def write(self) -> None:
        directory = self.run.directory
        self.began = self.time
        journal = Journal(directory, self.numbers, lambda: self.time, self._elapsed)
        journal.open()
        self.recorder = Recorder(journal, StoredHistory(self.run.record, directory=directory), self._elapsed)
        plan = RunPlanned(self.job, "host (no registry)", name=self.run.ref, directory=str(directory))
        self.recorder(replace(plan, unenforced=self.story.unenforced))
        manifests = {_short(each): each for each in self._manifests()}
        files, samples = RunDirectory(directory, print, self.numbers), SampleWriter(directory)
        for number, each in enumerate(self.story.tries, 1):
            self._attempt(number, each, manifests, files)
            if self.story.samples is not None:
                self._sample(samples, number, each, list(manifests))
        samples.close()
        started = self.began
        if self.story.phase in ("Running", "Restarting"):
            self.recorder.history.status = msgspec.structs.replace(self.recorder.status, started=started)
            self.recorder.write()
        else:
            self._end()
            status = msgspec.structs.replace(self.recorder.status, started=started, finished=self.time)
            if self.story.phase == "Aborted":
                status = msgspec.structs.replace(status, started=None, finished=None, reason="Suspended", stopped=True)
            self.recorder.history.status = status
            self.recorder.write()
        journal.close()

    def _elapsed(self) -> float:
        return (self.time - self.began).total_seconds() + 1000.0

    def _manifests(self) -> Iterator[Manifest]:
        return (pod.manifest for pod in pods(self.job, self.admitted.plugins))

    def _attempt(self, number: int, each: Try, manifests: Mapping[str, Manifest], files: RunDirectory) -> None:
        begin = self.time
        self._phase("Pending", number)
        for name, manifest in manifests.items():
            directory = files.add_pod(name, _of_attempt(manifest, number - 1))
            container = manifest["spec"]["containers"][0]["name"]
            self.logs[name] = LogFile(
                directory / f"{container}.0.log",
                print,
                self.numbers.next,
                clock=lambda: int(self.time.timestamp() * 1e9),
            )
            self._pod(name, PodPhase.PENDING, number, images={container: "host"})
        last = math.inf if each.seconds is None else each.seconds
        for moment, _, step in sorted(self._steps(number, each, list(manifests)), key=lambda step: step[:2]):
            if moment <= last and moment < math.inf:
                self.time = begin + dt.timedelta(seconds=moment)
                step()
        for log in self.logs.values():
            log.close()
        if each.seconds is None:
            return
        self.time = begin + dt.timedelta(seconds=each.seconds)
        if each.policy is not None:
            self._act(number, each.policy)

    def _steps(self, number: int, each: Try, names: Sequence[str]) -> Iterator[tuple[float, int, Callable[[], None]]]:
        """Yield what happens in an attempt: when, in which order at the same time, and what."""
        for order, name in enumerate(names):
            yield each.late.get(name, 0.4 + order * 0.001), 0, partial(self._pod, name, PodPhase.RUNNING, number)
            for moment, stream, text in self.story.lines(name, number):
                yield moment, 2, partial(self._print, name, stream, text)
        yield 0.5 + len(names) * 0.001, 1, partial(self._phase, "Running", number)
        for end in each.ends:
            yield end.after, 3, partial(self._ends, end, number)

    def _act(self, number: int, policy: JobPath) -> None:
        """A policy restarts the job: pods that still run are ended."""
        first = self.failures.in_order()[0]
        message = f"{first.pod.short_name} failed first"
        pod = first.pod.short_name
        self.acted = JobEvent("ExecuteAction", message, pod=pod, policy=policy, event="PodFailed", action="RestartJob")
        self._phase("Restarting", number, "PodFailed", message, acted=self.acted, retries=number)
        self.time += dt.timedelta(seconds=0.2)
        for name, each in list(self.pods.items()):
            if not each.is_finished:
                self.pods[name] = replace(each, deleted_at=self.time)
                self._pod(name, PodPhase.FAILED, number, ContainerEnd(each.task, 143, "", 15, self.time, ""))
        self.time += dt.timedelta(seconds=0.5)
        self.pods.clear()

    def _phase(self, phase: str, number: int, reason: str = "", message: str = "", **more: object) -> None:
        retries = int(str(more.get("retries", number - 1)))
        running = sum(pod.phase is PodPhase.RUNNING for pod in self.pods.values())
        moment = self.time.strftime("%Y-%m-%dT%H:%M:%SZ")
        status = JobStatus(
            state=JobState(phase=phase, reason=reason, message=message, last_transition_time=moment),
            min_available=self.job.spec.min_available,
            running=running,
            retry_count=retries,
            version=retries,
            controlled_resources={"pumice/spent": str(retries)} if retries else {},
        )
        self.job = msgspec.structs.replace(self.job, status=status)
        acted = more.get("acted")
        self.recorder(PhaseChanged(self.job, status, number, acted if isinstance(acted, JobEvent) else None))

    def _pod(
        self, name: str, phase: PodPhase, number: int, *ends: ContainerEnd, images: Mapping[str, str] | None = None
    ) -> None:
        task, _, index = name.rpartition("-")
        known = self.pods.get(name)
        if known is None:
            known = ObservedPod(
                f"{self.job.name}-{name}", str(uuid.uuid4()), task, int(index), number - 1, number - 1, phase, self.time
            )
        pod = self.pods[name] = replace(known, phase=phase, ends=ends, changed_at=self.time, ready=phase == "Running")
        self.failures.record(pod)
        self.recorder(PodChanged(pod, images or {}, "restarts the job" if phase is PodPhase.FAILED and ends else ""))

    def _ends(self, end: Ends, number: int) -> None:
        container = end.pod.rpartition("-")[0]
        signal_number = end.code - 128 if end.code > 128 else 0  # noqa: PLR2004 - 128 and the number of the signal
        found = ContainerEnd(container, end.code, end.reason, signal_number, self.time, end.line)
        if end.line:
            self._print(end.pod, "stderr", end.line)
        if end.restart:
            pod = self.pods[end.pod] = replace(self.pods[end.pod], restarts=self.pods[end.pod].restarts + 1)
            self.recorder(ContainerRestarted(pod, found, pod.restarts))
            self.time += dt.timedelta(seconds=2)
            self._pod(end.pod, PodPhase.RUNNING, number)
        else:
            self._pod(end.pod, PodPhase.FAILED if end.code else PodPhase.SUCCEEDED, number, found)

    def _print(self, pod: str, stream: str, text: str) -> None:
        self.logs[pod].write(text.encode() + b"\n", stream)
        # A run may have more pods than a process may have open files.
        self.logs[pod].close()

    def _sample(self, samples: SampleWriter, number: int, each: Try, names: Sequence[str]) -> None:
        if self.story.samples is None:
            return
        length = (self.time - self.began).total_seconds() if each.seconds is None else each.seconds
        begin, base = self.time - dt.timedelta(seconds=length), self._elapsed() - length
        ended = {end.pod: end.after for end in each.ends if not end.restart}
        at = 0.5
        while at < length:
            found = [
                (SampledPod(f"{number}-{name}", name, number, base), self.story.samples(name, number, at))
                for name in names
                if at < ended.get(name, length) and at >= each.late.get(name, 0.0)
            ]
            samples.append(base + at, begin + dt.timedelta(seconds=at), found)
            at += min(_SAMPLE, max(length / 60, 0.5))

    def _end(self) -> None:
        number = len(self.story.tries)
        retries = number if self.acted is not None and self.story.phase == "Failed" else number - 1
        reason = "RetriesExhausted" if self.story.phase == "Failed" and self.acted is not None else ""
        self._phase(self.story.phase, number, reason, self.story.message, retries=retries)
        failures = self.failures.in_order() if self.story.phase == "Failed" else ()
        look = f"pumice logs {self.run.ref}/{failures[0].pod.short_name} --tail 30" if failures else ""
        source = JobSource.of(self.run.record.file, self.run.record.marks)
        acted = None if self.acted is None or not failures else acted_policy(self.acted, source(self.acted.policy))
        verdict = judge(Evidence(job=self.job, failures=failures, policy=acted, cause=self.story.message), source)
        self.recorder(RunEnded(self.job, None if verdict is None else replace(verdict, next=look)))


def _short(manifest: Manifest) -> str:
    labels = manifest["metadata"]["labels"]
    return f"{labels['volcano.sh/task-spec']}-{labels['volcano.sh/task-index']}"


def _of_attempt(manifest: Manifest, retries: int) -> Manifest:
    metadata = manifest["metadata"]
    annotations = {**metadata["annotations"], "volcano.sh/job-retry-count": str(retries)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}
