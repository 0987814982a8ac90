"""Pulls the images that a job names and that are not here yet, before the run is prepared (`pumice run --pull`)."""

from __future__ import annotations

import os

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.lookup import image_names
from pumice.engines.local.images.store import ImageStore
from pumice.engines.local.preparation.run_plan import Plan
from pumice.engines.local.registry.image_reference import reference
from pumice.model.job import HOST_IMAGE
from pumice.model.problem import Problem
from pumice.model.units import size_text
from pumice.store.events import Emitter, Progress
from pumice.store.run_errors import PullError, Unsupported


async def pull_images(plan: Plan, emit: Emitter) -> list[str]:
    """Pull the images of a run that are missing; return a line per image for the header.

    Raises PullError or Unsupported with all images that cannot be pulled.
    """
    from pumice.engines.local.registry.pull import PullReport, pull  # noqa: PLC0415 - loads aiohttp, which takes long

    names = image_names(plan.manifests) - {HOST_IMAGE} - plan.settings.images.keys()
    store = ImageStore(plan.settings.state / "images")

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
