"""One run of one job on this machine: the sandbox, the engine and the loop put together, watched to the end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pumice.admission.admit import Admitted
from pumice.engines.local.container_spec.builder import SandboxFacts, SpecBuilder
from pumice.engines.local.container_spec.job_inputs import JobInputs
from pumice.engines.local.container_spec.resource_limits import Processors
from pumice.engines.local.engine import LocalEngine
from pumice.engines.local.event_json import JsonView
from pumice.engines.local.events import (
    Ended,
    Moved,
    Noted,
    Planned,
    Published,
    Stopping,
    Teller,
    TimePassed,
)
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.lookup import RunImages, image_names, with_names_in_use
from pumice.engines.local.images.store import ImageStore
from pumice.engines.local.isolation import AnySandbox, Network, only_user, open_sandbox, published, way_out
from pumice.engines.local.kubelet.pod import LocalPod, grace_of
from pumice.engines.local.kubelet.pod_factory import PodMaker, now
from pumice.engines.local.network.addresses import Addresses
from pumice.engines.local.options import RunOptions
from pumice.engines.local.outcome import Ending, Stop
from pumice.engines.local.preflight import (
    RefusedError,
    check_fit,
    check_problems,
    claim_directories,
    claims_at_hand,
    gang,
)
from pumice.engines.local.scaling import check_names, scaled
from pumice.engines.local.scheduling.machine import Machine, read_machine
from pumice.engines.local.scheduling.open_files import check_open_files, raise_open_files_limit
from pumice.engines.local.scheduling.pod_scheduler import PodScheduler
from pumice.engines.local.scheduling.reservations import Reservations, reservations_directory
from pumice.engines.local.stalled_job import Stall
from pumice.engines.local.state.remove_tree import remove_tree
from pumice.engines.local.state.run_directory import (
    KEPT,
    SCRATCH,
    RunDirectory,
    locked_run_directory,
    make_private,
    once_per_machine,
    state_problem,
)
from pumice.engines.local.verdict import policy_text
from pumice.model.job import Job, Manifest
from pumice.model.pod import all_containers
from pumice.model.problem import Problem
from pumice.model.slot import slots
from pumice.model.status import JobStatus
from pumice.model.vocabulary import Action, Phase
from pumice.plugins.owned_objects import owned_objects
from pumice.plugins.shaping import pods
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.phases import FINAL
from pumice.runtime.key_pairs import make_key_pair
from pumice.runtime.loop import Loop
from pumice.runtime.offline_context import offline_context
from pumice.runtime.runner import Runner

_OVER = FINAL | {Phase.ABORTED}
_TICK = 0.5


@dataclass(frozen=True, slots=True)
class Request:
    """What the user wants to be run."""

    admitted: Admitted
    options: RunOptions
    documents: Sequence[Manifest]  # ConfigMaps, Secrets and claims
    file: str
    locate: Callable[[str], str]  # a path in the Job -> file:line
    again: Callable[..., str]  # the command line that asks for the same once more, with additions


@dataclass(slots=True)
class LocalRun:
    request: Request
    tell: Teller
    job: Job = field(init=False)
    _admitted: Admitted = field(init=False)
    _manifests: list[Manifest] = field(init=False)
    _engine: LocalEngine = field(init=False)
    _sandbox: AnySandbox = field(init=False)
    _inputs: JobInputs = field(init=False)
    _addresses: Addresses = field(init=False)
    _directory: Path = field(init=False)
    _record: RunDirectory = field(init=False)
    _machine: Machine = field(init=False)
    _scheduler: PodScheduler = field(init=False)
    _images: RunImages = field(init=False)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _phase: str = ""
    _policy: str = ""
    _attempt: int = 1
    _pods: PodMaker = field(init=False)
    _stop: Stop | None = None
    _beside: list[asyncio.Task[None]] = field(default_factory=list)
    _kills_wait: bool = True

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Look at everything that can be known before anything starts, and hold what the job needs.

        Raises RefusedError or SettingsError.
        """
        options = self.request.options
        self._admitted = scaled(self.request.admitted, options.scale)
        self.job = self._admitted.written
        self._directory = options.settings.state / "runs" / f"{self.job.name}-{self.job.uid[:8]}"
        self._addresses = Addresses(slot.short_name for slot in slots(self._admitted.job))
        self._manifests = [pod.manifest for pod in pods(self._admitted.job, self._admitted.plugins)]
        check_names(options, self._admitted.job, self._manifests)
        with ExitStack() as held:
            try:
                self._equip(held)
                self._check()
                claim_directories(self._inputs.claims.values())
                held.enter_context(locked_run_directory(self._directory))
            except OSError as error:
                raise RefusedError(state_problem(options.settings.state, error).text) from error
            self._record = RunDirectory(self._directory, self.tell.warn)
            held.callback(self._record.close)
            self._record.write_job(self.job)
            self.tell.listeners.append(JsonView(self._record.append_events, with_logs=False))
            self.tell(Planned(self._admitted.job, self._images.text(self._manifests)))
            yield

    async def run(self) -> int:
        """To its end; the exit code."""
        settings = self.request.options.settings
        stage = settings.state / "stage"
        try:
            self._sandbox = await open_sandbox(self.job.name, stage, self.request.options.isolation, self.tell.warn)
        except OSError as error:
            if not str(error.filename).startswith(str(stage)):
                raise
            raise RefusedError(state_problem(settings.state, error).text) from error
        raise_open_files_limit(*self._counts())
        try:
            return await self._surrounded()
        finally:
            for task in self._beside:
                task.cancel()
            await self._sandbox.close()
            if not settings.keep:
                # How the job ended counts for more than files that cannot be removed; the next run tries it again.
                with suppress(OSError):
                    await asyncio.to_thread(remove_tree, self._directory / SCRATCH)

    def stop(self, stop: Stop) -> bool:
        """End the job gracefully; False if it is being ended already. Who asks first is named as the reason."""
        if self._stop is not None:
            return False
        self._stop = stop
        self.tell(Stopping(self.longest_grace))
        self._engine.send(Action.TERMINATE_JOB)
        return True

    @property
    def longest_grace(self) -> float:
        return max(grace_of(manifest["spec"]) for manifest in self._manifests)

    def was_killed(self, code: int) -> None:
        self.tell(Ended(self._phase, code, reason="Killed"))

    def _equip(self, held: ExitStack) -> None:
        settings = with_names_in_use(self.request.options.settings, image_names(self._manifests))
        make_private(settings.state)
        self._machine = read_machine()
        self._images = RunImages(
            ImageStore(settings.state / "images"),
            settings.images,
            held,
            warn=once_per_machine(settings.state, self.tell.warn),
            note=lambda message: self.tell(Noted(message)),
        )
        place = reservations_directory(os.environ, settings.state)
        self._scheduler = PodScheduler(
            self._machine, held.enter_context(Reservations(place, self.job.uid)), self.tell.warn
        )
        claims = claims_at_hand(self.job, self.request.documents, settings.state)
        self._engine = LocalEngine(
            self.job,
            self._make_pod,
            now,
            self._told,
            self._written,
            self._addresses.of,
            frozenset(claims),
        )
        self._inputs = JobInputs(
            job=self._admitted.job,
            settings=settings,
            scratch=self._directory / (KEPT if settings.keep else SCRATCH) / "volumes",
            documents=self.request.documents,
            objects=lambda: list(self._engine.objects.values()),
            claims=claims,
            address_of=self._addresses.of,
            image_of=self._images.of,
            allocatable=self._machine.free(),
        )

    def _check(self) -> None:
        for companion in owned_objects(self._admitted.job, self._admitted.plugins):
            self._engine.foresee(companion)
        found = [
            (manifest, container, self._problems(manifest, container))
            for manifest in self._manifests
            for container in all_containers(manifest["spec"])
        ]
        check_problems(self._admitted.job, found, self.request.locate)
        self._engine.objects.clear()
        members = {each["metadata"]["name"]: each["spec"] for each in gang(self._admitted.job, self._manifests)}
        check_fit(self._admitted.job, self._scheduler.reserve(members), self.request.locate)
        check_open_files(*self._counts())

    def _counts(self) -> tuple[int, int]:
        """Of pods and containers."""
        return len(self._manifests), sum(1 for manifest in self._manifests for _ in all_containers(manifest["spec"]))

    def _problems(self, manifest: Manifest, container: Manifest) -> list[Problem]:
        try:
            return self._inputs.problems(manifest, container)
        except ImageError as error:
            hint = error.hint or "an image is a directory with its files, or an archive made by `docker save`"
            return [Problem(f"image {container.get('image')}: {error.problem}", hint)]

    async def _surrounded(self) -> int:
        options = self.request.options
        ports = [(f"{self.job.name}-{each.pod}", each.port) for each in options.publish]
        hosts = self._inputs.hosts()
        # What a way out lacks that nobody asked for is worth a word, but not in every run.
        warn: Callable[[str], None] = self.tell.warn
        if options.network is Network.OUTBOUND:
            warn = once_per_machine(options.settings.state, warn)
        async with (
            published(self._sandbox, ports, self._published),
            way_out(self._sandbox, options.network, hosts, warn, self.tell.warn) as way,
        ):
            spec_builder = SpecBuilder(
                inputs=self._inputs,
                sandbox=SandboxFacts(
                    all_users=self._sandbox.all_users,
                    only_user=only_user(self._sandbox),
                    kernel_limits=self._sandbox.limits,
                    env=way.env,
                    nameservers=way.nameservers,
                ),
                host_key=make_key_pair("ed25519"),
                warn=self.tell.warn,
                gpus_of=self._scheduler.gpus_of,
                processors=Processors(self._machine.cpus),
            )
            self._pods = PodMaker(
                job=self._admitted.job,
                sandbox=self._sandbox,
                spec_builder=spec_builder,
                scheduler=self._scheduler,
                record=self._record,
                tell=self.tell,
                touch=self._engine.touch,
            )
            return await self._watch()

    async def _watch(self) -> int:
        self._beside.append(asyncio.create_task(self._tick()))
        self._engine.touch()
        loop = Loop(self._engine, offline_context(), now, queue=self._engine.queue, rest=8.0)
        loop.admitted[self._engine.key] = self._admitted
        runner = asyncio.create_task(Runner(loop).run())
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait([runner, over], return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
            if not runner.done():
                runner.cancel()
        with suppress(asyncio.CancelledError):
            await runner
        await self._engine.end_all()
        ended = self._ending().told(self._stop)
        self.tell(ended)
        return ended.code

    def _ending(self) -> Ending:
        failures = self._pods.failures.in_order()
        image = log = ""
        if failures:
            first, end = failures[0].pod, failures[0].end
            manifest = next(each for each in self._manifests if each["metadata"]["name"] == first.name)
            image = next(
                (each["image"] for each in all_containers(manifest["spec"]) if each["name"] == end.container), ""
            )
            log = str(self._record.newest_log(first.short_name, end.container) or "")
        return Ending(
            job=self._admitted.job,
            status=self._engine.job.status,
            failures=failures,
            policy=self._policy,
            again=self.request.again,
            locate=self.request.locate,
            kept=self._kept(),
            log=log,
            host_image=image if self._images.of(image) is None else "",
        )

    def _kept(self) -> list[str]:
        place = self._directory / KEPT
        if not self.request.options.settings.keep or not place.is_dir():
            return []
        layers = sorted(str(path) for path in place.iterdir() if path.name != "volumes")
        return layers or [str(place)]

    def _published(self, pod: str, port: int, address: str) -> None:
        self.tell(Published(pod.removeprefix(f"{self.job.name}-"), port, address))

    def _told(self, events: Sequence[JobEvent]) -> None:
        status = self._engine.job.status
        acted = next((event for event in events if event.policy), None)
        if acted is not None:
            self._policy = policy_text(acted, self.request.locate, who=False)
        if acted is not None or status.state.phase != self._phase:
            self._phase = status.state.phase
            if self._phase == Phase.PENDING:
                self._attempt = status.retry_count + 1
                # What led here is not what will end the next attempt.
                self._policy = ""
            self.tell(Moved(self._engine.job, status, self._attempt, acted))
        if status.state.phase in _OVER and all(pod.observed().is_finished for pod in self._engine.pods.values()):
            self._over.set()

    def _written(self, status: JobStatus) -> None:
        if status.state.phase == Phase.RUNNING and self._kills_wait:
            self._kills_wait = False
            kills = self.request.options.kills
            self._beside += [asyncio.create_task(self._kill(kill.pod, kill.after)) for kill in kills]

    async def _kill(self, pod: str, after: float) -> None:
        await asyncio.sleep(after)
        named = [local for local in self._engine.pods.values() if local.short_name == pod]
        if not any([await local.kill(int(signal.SIGKILL)) for local in named]):
            self.tell.warn(f"--kill {pod}@{after:g}s: nothing of it was running then")

    def _make_pod(self, manifest: Manifest, uid: str, address: str) -> LocalPod:
        return self._pods.make(manifest, uid, address)

    async def _tick(self) -> None:
        stall = Stall()
        while True:
            await asyncio.sleep(_TICK)
            self.tell(TimePassed())
            if words := stall.look(self._engine.job, self._engine.job.status):
                self.tell.warn(words)
