"""Prepares a run: everything that is known before a process starts, checked, and held until the run ends."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from msgspec import Struct
from msgspec.structs import replace

from pumice.admission.admit import Admitted
from pumice.engines.local.container_spec.header_notes import header_notes
from pumice.engines.local.container_spec.job_inputs import JobInputs
from pumice.engines.local.events import Emitter, RunPlanned
from pumice.engines.local.host_access.consent import check_host_access, warn_of_sharing
from pumice.engines.local.images.lookup import RunImages, image_names, with_names_in_use
from pumice.engines.local.images.store import ImageStore
from pumice.engines.local.network.addresses import Addresses
from pumice.engines.local.options import Locate, RunOptions
from pumice.engines.local.preparation.open_run import OpenRun, open_run
from pumice.engines.local.preparation.preflight import (
    check_fit,
    check_problems,
    containers_with_problems,
    memory_notes,
)
from pumice.engines.local.preparation.scaling import check_names, fit_to_machine
from pumice.engines.local.runs.run_directory import KEPT, SCRATCH, RunDirectory
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.scheduling.machine import Machine, read_machine
from pumice.engines.local.scheduling.open_files import check_open_files, pods_and_containers, raise_open_files_limit
from pumice.engines.local.scheduling.pod_scheduler import PodScheduler
from pumice.engines.local.scheduling.reservations import Reservations, reservations_directory
from pumice.engines.local.state.claims import claim_paths, make_claim_directories
from pumice.engines.local.state.state_directory import once_per_machine, state_error
from pumice.model.job import Manifest
from pumice.model.objects import KeyPair, Once
from pumice.model.slot import slots
from pumice.plugins.owned_objects import owned_objects
from pumice.plugins.shaping import pods


class Preparation(Struct, frozen=True, kw_only=True):
    admitted: Admitted
    manifests: Sequence[Manifest]  # of all pods
    inputs: JobInputs
    objects: dict[tuple[str, str], Manifest]  # the plugins' objects; the engine fills it, `inputs` reads it
    images: RunImages
    machine: Machine
    scheduler: PodScheduler
    record: RunDirectory
    run: OpenRun

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of pods and of containers."""
        return pods_and_containers(self.manifests)

    def raise_limits(self) -> None:
        """Allow this process as many open files as the pods need."""
        raise_open_files_limit(*self.counts)

    def kept(self) -> list[str]:
        """Return the directories with what the pods wrote, if it is kept."""
        directory = self.record.directory / KEPT
        if not self.inputs.settings.keep or not directory.is_dir():
            return []
        layers = sorted(str(path) for path in directory.iterdir() if path.name != "volumes")
        return layers or [str(directory)]


@contextmanager
def prepared(
    request: RunRequest, emit: Emitter, pulled: Sequence[str] = (), *, dry: bool = False
) -> Iterator[Preparation]:
    """`pulled` are lines for the header. With `dry`, nothing is stored. Raises InvalidOption or RefusedError."""
    options, documents, source = request.options, request.documents, request.source
    machine, state = read_machine(), options.settings.state
    admitted, changes = fit_to_machine(request.job, options, machine)
    job, manifests = admitted.job, [pod.manifest for pod in pods(admitted.job, admitted.plugins)]
    settings = with_names_in_use(options.settings, image_names(manifests))
    accesses, notes = check_host_access(settings, job, manifests, os.environ)
    objects: dict[tuple[str, str], Manifest] = {}
    with ExitStack() as held:
        try:
            run = held.enter_context(open_run(job, settings, request.owned, emit.note, dry=dry))
            images = RunImages(
                ImageStore(state / "images"),
                settings.images,
                held,
                warn=once_per_machine(state, emit.warn),
                note=emit.note,
            )
            reservations = held.enter_context(Reservations(reservations_directory(state), job.uid))
            preparation = Preparation(
                admitted=admitted,
                manifests=manifests,
                inputs=JobInputs(
                    job=job,
                    settings=settings,
                    scratch=run.directory / (KEPT if settings.keep else SCRATCH) / "volumes",
                    documents=documents,
                    objects=lambda: list(objects.values()),
                    claims=claim_paths(admitted.written, documents, state),
                    host_accesses=accesses,
                    address_of=Addresses(slot.short_name for slot in slots(job)).of,
                    image_of=images.of,
                    allocatable=machine.free(),
                ),
                objects=objects,
                images=images,
                machine=machine,
                scheduler=PodScheduler(machine, reservations, emit.warn),
                record=RunDirectory(run.directory, emit.warn, run.numbers, settings.log_size),
                run=run,
            )
            _check(preparation, options, source)
            if dry:
                yield preparation
                return
            run.take_turn(options, source)
            make_claim_directories(preparation.inputs.claims.values())
            emit.listeners.append(run.begin(_as_stored(request, admitted, manifests), emit.warn))
        except OSError as error:
            raise state_error(state, error) from error
        about_pods = header_notes(preparation.inputs, admitted.written, manifests)
        said = (*notes, *pulled, *about_pods, *memory_notes(manifests, options.isolation), *changes)
        emit(RunPlanned(job, images.text(manifests), accesses, said, run.ref, str(run.directory), options.note))
        warn_of_sharing(settings, once_per_machine(state, emit.warn))
        for warning in run.continuation_warnings(job):
            emit.warn(warning)
        yield preparation


def _as_stored(request: RunRequest, admitted: Admitted, manifests: Sequence[Manifest]) -> RunRequest:
    """Return what is stored of a run: the job as written, because `--fit` is applied again when it is resumed."""
    return replace(request, job=replace(admitted, written=request.job.written), manifests=manifests)


def _check(preparation: Preparation, options: RunOptions, locate: Locate) -> None:
    admitted, objects = preparation.admitted, preparation.objects
    job = admitted.job
    check_names(options, job, preparation.manifests)
    for each in owned_objects(job, admitted.plugins):
        manifest = each.created_with(_no_key_pair) if isinstance(each, Once) else each
        objects[manifest["kind"], manifest["metadata"]["name"]] = manifest
    found = containers_with_problems(preparation.inputs, preparation.manifests)
    objects.clear()
    check_problems(job, found, locate)
    preparation.run.join_queue(job, preparation.manifests, options, preparation.scheduler)
    check_fit(admitted, preparation.run.turn.fit_in(preparation.machine.capacity()), preparation.machine, locate)
    check_open_files(*preparation.counts)


def _no_key_pair(_kind: str) -> KeyPair:
    """Stands for keys that are generated when the run starts."""
    return KeyPair("", "")
