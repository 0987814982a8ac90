"""Which signal asks a container to end: that of the container, else that of its image, else SIGTERM."""

from __future__ import annotations

import re
import signal
from typing import Final

from pumice.engines.local.images.store import Image
from pumice.model.job import Manifest

# `SIGINT`, `INT`, `SIGRTMIN+3` or a number, as in the configuration of an image.
_NAME: Final = re.compile(r"(?:SIG)?([A-Z][A-Z0-9]*)([+-]\d{1,2})?", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[0-9]{1,2}")


def stop_signal(container: Manifest, image: Image | None) -> int:
    """Return the number of the signal; SIGTERM where an image names none that exists."""
    text = str(
        (container.get("lifecycle") or {}).get("stopSignal") or ("" if image is None else image.config.stop_signal)
    )
    if _NUMBER.fullmatch(text):
        number = int(text)
    elif found := _NAME.fullmatch(text):
        number = int(getattr(signal, f"SIG{found[1].upper()}", 0))
        number += int(found[2] or 0) if number else 0
    else:
        number = 0
    return number if 0 < number < signal.NSIG else int(signal.SIGTERM)
