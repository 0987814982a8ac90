"""One run of one job on this machine: the sandbox, the engine and the loop put together, watched to the end."""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pumice.admission.admit import Admitted
from pumice.cli.jobfile import offline_context
from pumice.cli.run_settings import RunOptions
from pumice.cli.run_view import View
from pumice.engines.local.addresses import Addresses
from pumice.engines.local.containers import Container
from pumice.engines.local.engine import LocalEngine
from pumice.engines.local.logs import LogPump, open_log
from pumice.engines.local.outfits import Outfitter
from pumice.engines.local.pods import LocalPod
from pumice.engines.local.sandbox.client import Sandbox
from pumice.engines.local.unsupported import not_honoured
from pumice.engines.local.verdicts import Failure, failures_among, last_words
from pumice.model.job import Job, Manifest
from pumice.model.slot import slots
from pumice.model.status import JobStatus
from pumice.model.vocabulary import Action, Phase
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.phases import FINAL
from pumice.runtime.key_pairs import make_key_pair
from pumice.runtime.loop import Loop
from pumice.runtime.runner import Runner

_OVER = FINAL | {Phase.ABORTED}


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(slots=True)
class LocalRun:
    admitted: Admitted
    options: RunOptions
    documents: Sequence[object]
    view: View
    file: str
    job: Job = field(init=False)
    _engine: LocalEngine = field(init=False)
    _sandbox: Sandbox = field(init=False)
    _outfitter: Outfitter = field(init=False)
    _addresses: Addresses = field(init=False)
    _directory: Path = field(init=False)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _failures: list[Failure] = field(default_factory=list)
    _policy: str = ""
    _killers: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.job = _placed(self.admitted.written, self.options)
        self._directory = self.options.settings.state / "runs" / f"{self.job.name}-{self.job.uid[:8]}"
        self._addresses = Addresses(slot.short_name for slot in slots(self.admitted.job))

    async def run(self) -> int:
        self.view.plan(self.admitted.job, "host (no registry)")
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._sandbox = await Sandbox.start(self.job.name, self.options.settings.state / "stage")
        try:
            self._prepare()
            return await self._watch()
        finally:
            for killer in self._killers:
                killer.cancel()
            await self._sandbox.close()

    def stop_gracefully(self) -> None:
        self._engine.send(Action.TERMINATE_JOB)

    def _prepare(self) -> None:
        self._engine = LocalEngine(
            self.job, self._make_pod, now, self._told, self._written, address_of=self._addresses.of
        )
        self._outfitter = Outfitter(
            job=self.admitted.job,
            settings=self.options.settings,
            scratch=self._directory / "volumes",
            documents=[document for document in self.documents if isinstance(document, dict)],
            objects=lambda: list(self._engine.objects.values()),
            claims={},
            address_of=self._addresses.of,
            image_of=lambda _name: None,
            host_key=make_key_pair("ed25519"),
            warn=self.view.warn,
            all_users=self._sandbox.all_users,
        )

    async def _watch(self) -> int:
        runner = asyncio.create_task(Runner(Loop(self._engine, offline_context(), now)).run())
        over = asyncio.create_task(self._over.wait())
        await asyncio.wait([runner, over], return_when=asyncio.FIRST_COMPLETED)
        if runner.done():
            over.cancel()
            await runner
        runner.cancel()
        with suppress(asyncio.CancelledError):
            await runner
        await self._engine.end_all()
        return self._end()

    def _end(self) -> int:
        status = self._engine.job.status
        if status.state.phase == Phase.COMPLETED:
            return 0
        words = last_words(
            self._engine.job, self._failures, self._policy, f"pumice run {self.file} --keep     keeps the pods' files"
        )
        fields: dict[str, object] = {"pod": words.pod, "code": words.code, "signal": words.signal or None}
        self.view.verdict(words.lines, {**fields, "reason": words.reason})
        return words.code or 1

    def _told(self, events: Sequence[JobEvent]) -> None:
        self.view.events(events)
        for event in events:
            if event.policy:
                self._policy = f"{event.policy.partition(' ')[2]} -> {event.action} ({event.policy.partition(' ')[0]})"

    def _written(self, status: JobStatus) -> None:
        self.view.status(self._engine.job, status)
        pods = [pod.observed() for pod in self._engine.pods.values()]
        found = failures_among(pods, status.retry_count + 1)
        known = {failure.pod.uid for failure in self._failures}
        if any(failure.pod.uid not in known for failure in found):
            self._failures = [failure for failure in self._failures if failure.attempt == status.retry_count + 1]
            self._failures += [failure for failure in found if failure.pod.uid not in known]
        if status.state.phase == Phase.RUNNING and not self._killers:
            self._killers = [asyncio.create_task(self._kill(kill.pod, kill.after)) for kill in self.options.kills]
        if status.state.phase in _OVER and not any(not pod.is_finished for pod in pods):
            self._over.set()

    async def _kill(self, pod: str, after: float) -> None:
        await asyncio.sleep(after)
        for local in list(self._engine.pods.values()):
            if local.short_name == pod:
                await local.kill(9)

    def _make_pod(self, manifest: Manifest, uid: str, address: str) -> LocalPod:
        for warning in not_honoured(manifest):
            self.view.warn(warning)

        def make_container(container: Manifest, init: bool) -> Container:
            del init
            return Container(
                manifest=container,
                sandbox=self._sandbox,
                make_spec=lambda attempt: self._outfitter.spec(manifest, uid, address, container, attempt),
                open_logs=lambda attempt: self._open_logs(pod, str(container["name"]), attempt),
                changed=self._engine.touch,
                now=now,
            )

        pod = LocalPod(
            manifest=manifest,
            uid=uid,
            address=address,
            sandbox=self._sandbox,
            make_container=make_container,
            changed=self._engine.touch,
            now=now,
            created_at=now(),
        )
        return pod

    def _open_logs(self, pod: LocalPod, container: str, attempt: int) -> tuple[LogPump, LogPump]:
        file = open_log(self._directory / "logs", pod.short_name, container, attempt)
        return (
            LogPump(pod.short_name, container, "stdout", file, self.view.log),
            LogPump(pod.short_name, container, "stderr", file, self.view.log),
        )


def _placed(job: Job, options: RunOptions) -> Job:
    """The job as an API server would hold it, in the sizes that the user asked for."""
    tasks = [
        msgspec.structs.replace(task, replicas=options.scale[task.name], min_available=None)
        if task.name in options.scale
        else task
        for task in job.spec.tasks
    ]
    total = sum(task.replicas for task in tasks)
    spec = msgspec.structs.replace(job.spec, tasks=tasks, min_available=min(job.spec.min_available, total))
    metadata = msgspec.structs.replace(
        job.metadata, namespace=job.namespace or "default", uid=str(uuid.uuid4()), generation=1, resource_version="1"
    )
    return msgspec.structs.replace(job, metadata=metadata, spec=spec)
