"""What the images of this machine run by themselves: for containers without a command that get arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from pumice.admission.program_arguments import ImageCommand
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.lookup import with_names_in_use
from pumice.engines.local.images.store import ImageStore
from pumice.store.settings import Settings


def image_commands(settings: Settings) -> Callable[[str], ImageCommand | None]:
    """Return a function that knows what an image runs by itself, if the image is on this machine."""

    @cache
    def command_of(name: str) -> ImageCommand | None:
        known, store = with_names_in_use(settings, [name]), ImageStore(settings.state / "images")
        if name in known.entrypoints:
            return ImageCommand(known.entrypoints[name])
        try:
            path = known.images.get(name)
            image = store.find(name) if path is None else store.obtain(name, path, lambda _message: None)
        except ImageError:
            # The run reports it.
            return None
        return None if image is None else ImageCommand(image.config.entrypoint, image.config.cmd)

    return command_of
