"""Checks a request: the plan of a run is everything that is known of it before anything is reserved or stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from pumice.admission.admit import Admitted
from pumice.engines.local.container_spec.job_inputs import JobInputs
from pumice.engines.local.host_access.consent import check_consent, notes
from pumice.engines.local.images.lookup import RunImages, image_names, with_names_in_use
from pumice.engines.local.images.store import Image, ImageStore
from pumice.engines.local.network.addresses import Addresses
from pumice.engines.local.network.published_ports import check_ports
from pumice.engines.local.preparation.preflight import check_containers, check_fit
from pumice.engines.local.preparation.scaling import check_names, fit_to_machine, gang, stored
from pumice.engines.local.scheduling.fit import check_open_files, fit, pod_requests, pods_and_containers
from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.stored_data import claim_paths
from pumice.model.job import Job, Manifest
from pumice.model.objects import KeyPair, Once
from pumice.model.slot import slots
from pumice.plugins.shaping import owned_objects, pods
from pumice.store.code.snapshots import check_snapshot
from pumice.store.events import Emitter
from pumice.store.files.state_directory import make_private, once_per_machine, state_error
from pumice.store.history.run_history import RunHistory
from pumice.store.run_request import RunRequest
from pumice.store.settings import HostAccess, Settings


class Plan(Struct, frozen=True, kw_only=True):
    request: RunRequest  # with the job as it is stored
    admitted: Admitted  # the job as it fits this machine
    manifests: Sequence[Manifest]  # of all pods
    settings: Settings  # keyed by the names of images that the pods use
    machine: Machine
    host_accesses: Sequence[HostAccess]
    claims: Mapping[str, Path]
    notes: tuple[str, ...]  # for the header: about host access
    changes: tuple[str, ...]  # for the header: how the job was changed to fit

    @property
    def job(self) -> Job:
        return self.admitted.job

    @property
    def gang(self) -> list[Manifest]:
        """The pods that start at once."""
        return gang(self.job, self.manifests)

    def inputs(
        self, image_of: Callable[[str], Image | None], scratch: Path, objects: Callable[[], Sequence[Manifest]]
    ) -> JobInputs:
        """Return what containers are built from. `objects` are those of the plugins, volumes are below `scratch`."""
        return JobInputs(
            job=self.job,
            settings=self.settings,
            scratch=scratch,
            documents=self.request.documents,
            objects=objects,
            claims=self.claims,
            host_accesses=self.host_accesses,
            address_of=Addresses(slot.short_name for slot in slots(self.job)).of,
            image_of=image_of,
            allocatable=self.machine.free(),
        )


def check(request: RunRequest, machine: Machine, environ: Mapping[str, str], history: RunHistory | None = None) -> Plan:
    """Check a request as far as images need not be read. Nothing is written. `history` is that of a stored run.

    Raises InvalidOption or RefusedError.
    """
    options = request.options
    check_snapshot(options, is_new=history is None)
    request = replace(request, job=stored(request.job, options.scale, history))
    admitted, changes = fit_to_machine(request.job, options, machine)
    manifests = [pod.manifest for pod in pods(admitted.job, admitted.plugins)]
    settings = with_names_in_use(options.settings, image_names(manifests))
    # Tasks that have no pods yet count, too: `scale` starts them without a further question.
    templates = [{"spec": task.pod_spec} for task in admitted.job.spec.tasks if not task.replicas]
    accesses = check_consent(settings, [*manifests, *templates], environ)
    check_names(options, admitted.job, manifests)
    if options.publish:
        only = next(slots(admitted.job)).short_name
        publish = tuple(dict.fromkeys(replace(each, pod=each.pod or only) for each in options.publish))
        request = replace(request, options=replace(options, publish=publish))
        if history is None:
            # A stored run starts, and publishes them when they are free.
            check_ports(publish)
    plan = Plan(
        request=request,
        admitted=admitted,
        manifests=manifests,
        settings=settings,
        machine=machine,
        host_accesses=accesses,
        claims=claim_paths(admitted.written, request.documents, settings.state),
        notes=tuple(notes(settings, environ)),
        changes=tuple(changes),
    )
    needs = [pod_requests(each["spec"]) for each in plan.gang]
    check_fit(admitted, fit(needs, machine.capacity()), machine, request.source)
    check_open_files(*pods_and_containers(manifests))
    return plan


@contextmanager
def hold_images(plan: Plan, emit: Emitter) -> Iterator[RunImages]:
    """Yield the images of a run, which are not removed meanwhile. Raises Unsupported if a container cannot start."""
    state = plan.settings.state
    with ExitStack() as held:
        images = RunImages(
            ImageStore(state / "images"),
            plan.settings.images,
            held,
            warn=once_per_machine(state, emit.warn),
            note=emit.note,
        )
        try:
            make_private(state)
            owned = owned_objects(plan.job, plan.admitted.plugins)
            # Keys are generated when the run starts.
            objects = [
                each.created_with(lambda _: KeyPair("", "")) if isinstance(each, Once) else each for each in owned
            ]
            inputs = plan.inputs(images.of, state, lambda: objects)
            check_containers(plan.job, plan.manifests, inputs.problems, plan.request.source)
        except OSError as error:
            raise state_error(state, error) from error
        yield images
