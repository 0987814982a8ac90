from __future__ import annotations

import pytest

from pumice.diagnosis.cluster.gang_text import gang_sentence

GANG = "4/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable"
NODES = "0/2 nodes are unavailable: 2 Insufficient cpu"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        pytest.param(GANG, "none of the 4 pods that must start together fits", id="nothing fits"),
        pytest.param(
            f"{GANG}; Pending: 1 Unschedulable, 3 Schedulable. Origin reason is train-worker-3: {NODES}.",
            f"only 3 of the 4 pods that must start together fit: {NODES}",
            id="a part fits",
        ),
        pytest.param(
            f"{GANG}; Pending: 3 Unschedulable, 1 Schedulable",
            "only 1 of the 4 pods that must start together fits",
            id="one fits",
        ),
        pytest.param("minCount (4) cannot be satisfied", "minCount (4) cannot be satisfied", id="another form"),
        pytest.param("", "", id="nothing said"),
    ],
)
def test_the_sentence(text: str, sentence: str) -> None:
    assert gang_sentence(text) == sentence
