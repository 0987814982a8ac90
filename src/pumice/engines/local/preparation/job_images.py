"""Pulls the images that a job names and that are not here yet, before the run is prepared (`pumice run --pull`)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from pumice.engines.local.events import Emitter, Progress
from pumice.engines.local.host_access.consent import check_host_access
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.lookup import image_names, with_names_in_use
from pumice.engines.local.images.store import ImageStore
from pumice.engines.local.preparation.preflight import check_fit
from pumice.engines.local.preparation.run_preparation import Preparation, prepared
from pumice.engines.local.preparation.scaling import fit_to_machine
from pumice.engines.local.registry.image_reference import reference
from pumice.engines.local.run_errors import PullError, Unsupported
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.scheduling.fitting import gang_fit
from pumice.engines.local.scheduling.machine import read_machine
from pumice.model.job import HOST_IMAGE
from pumice.model.problem import Problem
from pumice.model.text import size_text
from pumice.plugins.shaping import pods

__all__ = ["Preparation", "prepared_with_images", "pull_missing"]


@asynccontextmanager
async def prepared_with_images(request: RunRequest, emit: Emitter) -> AsyncIterator[Preparation]:
    """Raises InvalidOption, RefusedError or PullError."""
    pulled = await _pull_for(request, emit) if request.options.pull else []
    with prepared(request, emit, pulled) as plan:
        yield plan


async def _pull_for(request: RunRequest, emit: Emitter) -> list[str]:
    """Pull what is missing, unless the job cannot run here anyway; return a line per image for the header."""
    machine, settings = read_machine(), request.options.settings
    admitted, _ = fit_to_machine(request.job, request.options, machine)
    check_fit(admitted, gang_fit(admitted, machine.capacity()), machine, request.source)
    manifests = [pod.manifest for pod in pods(admitted.job, admitted.plugins)]
    names = image_names(manifests) - {HOST_IMAGE}
    settings = with_names_in_use(settings, names)
    check_host_access(settings, admitted.job, manifests, os.environ)
    return await pull_missing(names - settings.images.keys(), ImageStore(settings.state / "images"), emit)


async def pull_missing(names: Iterable[str], store: ImageStore, emit: Emitter) -> list[str]:
    """Raises PullError or Unsupported with all images that cannot be pulled."""
    from pumice.engines.local.registry.pull import PullReport, pull  # noqa: PLC0415 - loads aiohttp, which takes long

    def report(name: str) -> PullReport:
        return PullReport(
            lambda text: emit(Progress(f"image {name}: {text}")),
            lambda text: emit(Progress(f"image {name}: {text}", transient=True)),
        )

    pulled: list[str] = []
    errors: list[ImageError] = []
    for name in sorted(names):
        try:
            if store.find(name) is not None:
                continue
            image = await pull(name, store, os.environ, report(name))
        except ImageError as error:
            errors.append(error)
        else:
            pulled.append(f"pulled {name} from {reference(name).host}: {image.digest[:19]}, {size_text(image.size)}")
    if errors:
        kind = PullError if all(error.exit_code == 1 for error in errors) else Unsupported
        raise kind.of([Problem(f"image {error.problem}", error.hint) for error in errors])
    return pulled
