"""Why a command could not be started, in the words of several runtimes."""

from __future__ import annotations

import pytest

from pumice.client.cluster.pods.pod_streams import CommandEnd
from pumice.client.pod_access import NotStartedError

RUNC = 'exec failed: unable to start container process: exec: "nvidia-smi": executable file not found in $PATH'


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(f"OCI runtime exec failed: {RUNC}", id="cri-o"),
        pytest.param(
            f'failed to exec in container: failed to start exec "2da549912071": OCI runtime exec failed: {RUNC}\n',
            id="containerd",
        ),
    ],
)
def test_the_missing_program_is_named(failure: str) -> None:
    with pytest.raises(NotStartedError, match=r"^train/w-0: nvidia-smi: not found in the container"):
        CommandEnd(1, failure).code("train/w-0")
