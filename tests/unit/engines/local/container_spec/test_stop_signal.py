from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pumice.engines.local.container_spec.job_inputs import stop_signal
from pumice.engines.local.images.sources import ImageConfig
from pumice.engines.local.images.store import Image


@pytest.mark.parametrize(
    ("own", "of_image", "number"),
    [
        pytest.param("", None, signal.SIGTERM, id="neither"),
        pytest.param("", "", signal.SIGTERM, id="an image without one"),
        pytest.param("", "SIGINT", signal.SIGINT, id="of the image"),
        pytest.param("", "quit", signal.SIGQUIT, id="without SIG"),
        pytest.param("", "2", signal.SIGINT, id="a number"),
        pytest.param("", "SIGRTMIN+3", signal.SIGRTMIN + 3, id="a real-time signal"),
        pytest.param("SIGRTMAX-1", "SIGINT", signal.SIGRTMAX - 1, id="the container's own wins"),
        *(
            pytest.param("", text, signal.SIGTERM, id=text[:9])
            for text in ("SIG_IGN", "HELLO", "HELLO+3", "0", "65", "RTMAX+1", "-9", "9" * 5000, "SIGINT ", "setitimer")
        ),
    ],
)
def test_the_signal(own: str, of_image: str | None, number: int) -> None:
    image = None if of_image is None else Image("i", Path(), "i", config=ImageConfig(stop_signal=of_image))
    assert stop_signal({"name": "c", **({"lifecycle": {"stopSignal": own}} if own else {})}, image) == number
