"""One run of one job on this machine: the sandbox, the engine and the loop put together, watched to the end."""

from __future__ import annotations

import asyncio
import datetime as dt
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pumice.admission.admit import Admitted, admit
from pumice.cli.jobfile import offline_context
from pumice.cli.run_settings import RunOptions
from pumice.cli.run_view import View, policy_text
from pumice.engines.local.addresses import Addresses
from pumice.engines.local.capacity import GpuPool
from pumice.engines.local.containers import Container
from pumice.engines.local.engine import LocalEngine
from pumice.engines.local.images.names import normalised
from pumice.engines.local.images.store import Image, ImageStore
from pumice.engines.local.logs import LogPump, open_log
from pumice.engines.local.machine import Machine, read_machine
from pumice.engines.local.outfits import Outfitter
from pumice.engines.local.pods import LocalPod
from pumice.engines.local.preflight import (
    check_fit,
    check_problems,
    claim_directories,
    every_container,
)
from pumice.engines.local.runs import KEPT, SCRATCH, claimed
from pumice.engines.local.surroundings import AnySandbox, only_user, open_sandbox, published, way_out
from pumice.engines.local.trees import remove_tree
from pumice.engines.local.unsupported import not_honoured
from pumice.engines.local.verdicts import Failure, failures_among, last_words
from pumice.model.claims import claim_names
from pumice.model.job import Job, Manifest
from pumice.model.slot import slots
from pumice.model.status import JobStatus
from pumice.model.vocabulary import Action, Phase
from pumice.plugins.companions import companions
from pumice.plugins.shaping import pods
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
    locate: Callable[[str], str] = lambda path: path
    job: Job = field(init=False)
    _engine: LocalEngine = field(init=False)
    _sandbox: AnySandbox = field(init=False)
    _outfitter: Outfitter = field(init=False)
    _addresses: Addresses = field(init=False)
    _directory: Path = field(init=False)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _failures: list[Failure] = field(default_factory=list)
    _policy: str = ""
    _stopped: bool = False
    _images: dict[str, Image | None] = field(default_factory=dict)
    _machine: Machine = field(init=False)
    _killers: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.job = _placed(self.admitted.written, self.options)
        # With other replicas there are other pods, names and ranks.
        self.admitted = admit(msgspec.to_builtins(self.job), offline_context())
        self._directory = self.options.settings.state / "runs" / f"{self.job.name}-{self.job.uid[:8]}"
        self._addresses = Addresses(slot.short_name for slot in slots(self.admitted.job))

    async def run(self) -> int:
        """To its end; the exit code. Raises RefusedError, before anything starts, if it cannot be run."""
        with ExitStack() as held:
            self._prepare(held)
            manifests = self._check()
            self.view.plan(self.admitted.job, self._images_text(manifests))
            held.enter_context(claimed(self._directory))
            self._keep_spec()
            self._sandbox = await open_sandbox(
                self.job.name, self.options.settings.state / "stage", self.options.isolation, self.view.warn
            )
            self._outfitter.all_users = self._sandbox.all_users
            self._outfitter.only_user = only_user(self._sandbox)
            try:
                return await self._surrounded()
            finally:
                for killer in self._killers:
                    killer.cancel()
                await self._sandbox.close()
                if not self.options.settings.keep:
                    await asyncio.to_thread(remove_tree, self._directory / SCRATCH)

    def stop_gracefully(self) -> None:
        self._stopped = True
        self._engine.send(Action.TERMINATE_JOB)

    def _check(self) -> list[Manifest]:
        """All that can be known before anything starts; the pods' manifests."""
        job, plugins = self.admitted.job, self.admitted.plugins
        manifests = [pod.manifest for pod in pods(job, plugins)]
        problems = {}
        for companion in companions(job, plugins):
            self._engine.foresee(companion)
        for manifest in manifests:
            for container in every_container(manifest):
                place = f"{manifest['metadata']['name']}: container {container['name']}"
                problems[place] = self._outfitter.problems(manifest, container)
        check_problems(problems, self.file)
        self._engine.objects.clear()
        check_fit(job, manifests, self._machine.free(), self.file)
        return manifests

    def _keep_spec(self) -> None:
        (self._directory / "job.json").write_bytes(msgspec.json.format(msgspec.json.encode(self.job), indent=1))

    def _images_text(self, manifests: Sequence[Manifest]) -> str:
        names = {str(each.get("image") or "") for manifest in manifests for each in every_container(manifest)}
        mapped = sorted(name for name in names if self._images.get(name) is not None)
        if not mapped:
            return "host (no registry)"
        return ", ".join(mapped) + ("" if len(mapped) == len(names) else "; the others: host (no registry)")

    def _image_of(self, held: ExitStack) -> Callable[[str], Image | None]:
        """The user's mapping, then the store; None where the host serves. Each is held for as long as the job runs."""
        store = ImageStore(self.options.settings.state / "images")
        given = {normalised(name): path for name, path in self.options.settings.images.items()}

        def image_of(name: str) -> Image | None:
            if not name:
                return None
            if name not in self._images:
                path = given.get(normalised(name))
                image = store.find(name) if path is None else store.obtain(name, path, self.view.warn)
                if image is not None:
                    held.enter_context(store.held(image))
                self._images[name] = image
            return self._images[name]

        return image_of

    def _prepare(self, held: ExitStack) -> None:
        self._machine = read_machine()
        asked = [document for document in self.documents if isinstance(document, dict)]
        named = [str(each["metadata"]["name"]) for each in asked if each.get("kind") == "PersistentVolumeClaim"]
        directories = claim_directories([*named, *claim_names(self.job)], self.options.settings.state)
        self._engine = LocalEngine(
            self.job, self._make_pod, now, self._told, self._written, self._addresses.of, frozenset(directories)
        )
        self._outfitter = Outfitter(
            job=self.admitted.job,
            settings=self.options.settings,
            scratch=self._directory / (KEPT if self.options.settings.keep else SCRATCH) / "volumes",
            documents=asked,
            objects=lambda: list(self._engine.objects.values()),
            claims=directories,
            address_of=self._addresses.of,
            image_of=self._image_of(held),
            host_key=make_key_pair("ed25519"),
            warn=self.view.warn,
            allocatable=self._machine.free(),
            gpus=GpuPool(self._machine.gpus),
        )

    async def _surrounded(self) -> int:
        ports = [(f"{self.job.name}-{each.pod}", each.port) for each in self.options.publish]
        hosts = self._outfitter.hosts()
        async with (
            published(self._sandbox, ports, self.view.note),
            way_out(self._sandbox, self.options.network, hosts, self.view.warn) as way,
        ):
            self._outfitter.extra_env = {**self._outfitter.extra_env, **way.env}
            self._outfitter.nameservers = way.nameservers
            return await self._watch()

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
        if self.options.settings.keep:
            self.view.note(f"kept: {self._directory / KEPT}")
        return self._end()

    def _end(self) -> int:
        status = self._engine.job.status
        if status.state.phase == Phase.COMPLETED:
            return 0
        words = last_words(
            msgspec.structs.replace(self.admitted.job, status=status),
            self._failures,
            self._policy,
            f"pumice run {self.file} --keep     keeps the pods' files",
        )
        fields: dict[str, object] = {"pod": words.pod, "code": words.code, "signal": words.signal or None}
        self.view.verdict(words.lines, {**fields, "reason": words.reason})
        return words.code or 1

    def _told(self, events: Sequence[JobEvent]) -> None:
        self.view.status(self._engine.job, self._engine.job.status, events)
        for event in events:
            if event.policy:
                self._policy = policy_text(event, self.locate, who=False)
        self._look_for_end()

    def _written(self, status: JobStatus) -> None:
        found = failures_among([pod.observed() for pod in self._engine.pods.values()])
        known = {failure.pod.uid for failure in self._failures}
        self._failures += [failure for failure in found if failure.pod.uid not in known]
        newest = max((failure.attempt for failure in self._failures), default=0)
        self._failures = [failure for failure in self._failures if failure.attempt == newest]
        if status.state.phase == Phase.RUNNING and not self._killers:
            self._killers = [asyncio.create_task(self._kill(kill.pod, kill.after)) for kill in self.options.kills]

    def _look_for_end(self) -> None:
        pods = [pod.observed() for pod in self._engine.pods.values()]
        if self._engine.job.status.state.phase in _OVER and all(pod.is_finished for pod in pods):
            self._over.set()

    async def _kill(self, pod: str, after: float) -> None:
        await asyncio.sleep(after)
        for local in list(self._engine.pods.values()):
            if local.short_name == pod:
                await local.kill(9)

    def _make_pod(self, manifest: Manifest, uid: str, address: str) -> LocalPod:
        for warning in not_honoured(manifest):
            self.view.warn(warning)

        def make_container(container: Manifest) -> Container:
            return Container(
                manifest=container,
                sandbox=self._sandbox,
                make_spec=lambda attempt: self._outfitter.spec(manifest, uid, address, container, attempt),
                open_logs=lambda attempt: self._open_logs(pod, str(container["name"]), attempt),
                changed=self._engine.touch,
                restarted=lambda end, count: self.view.restarted(pod.short_name, end, count),
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
