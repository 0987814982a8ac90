from __future__ import annotations

import pytest

from pumice.diagnosis.cluster.scheduler_text import NodeReason, gang_sentence, read_scheduler_text

PREEMPTION = "preemption: 0/4 nodes are available: 1 No preemption victims found for incoming pod, 3 Preemption is not."


@pytest.mark.parametrize(
    ("text", "nodes", "before", "reasons"),
    [
        pytest.param(
            "0/4 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, "
            f"3 node(s) had untolerated taint(s). {PREEMPTION}",
            4,
            "",
            [(1, "Insufficient cpu"), (1, "Insufficient memory"), (3, "node(s) had untolerated taint(s)")],
            id="several reasons",
        ),
        pytest.param(
            "0/4 nodes are available: 1 node(s) had untolerated taint {a: b}, 3 node(s) didn't match pod affinity "
            "rules, nor those of others.",
            4,
            "",
            [
                (1, "node(s) had untolerated taint {a: b}"),
                (3, "node(s) didn't match pod affinity rules, nor those of others"),
            ],
            id="a comma in a reason",
        ),
        pytest.param(
            f"0/4 nodes are available: pod has unbound immediate PersistentVolumeClaims. {PREEMPTION}",
            4,
            "pod has unbound immediate PersistentVolumeClaims",
            [],
            id="before the nodes",
        ),
        pytest.param(
            "0/4 nodes are available: waiting for it. 4 Insufficient cpu.",
            4,
            "waiting for it",
            [(4, "Insufficient cpu")],
            id="before the nodes, and nodes",
        ),
        pytest.param("0/3 nodes are unavailable: 3 a.", 3, "", [(3, "a")], id="in the words of Volcano"),
        pytest.param("0/0 nodes are available: .", 0, "", [], id="no nodes"),
    ],
)
def test_the_text_is_read(text: str, nodes: int, before: str, reasons: list[tuple[int, str]]) -> None:
    read = read_scheduler_text(text)
    assert read is not None
    assert (read.nodes, read.before) == (nodes, before)
    assert read.reasons == tuple(NodeReason(*reason) for reason in reasons)


def test_a_text_without_nodes_is_not() -> None:
    assert read_scheduler_text("pod group is unschedulable") is None


@pytest.mark.parametrize(
    ("text", "missing", "about_claims"),
    [
        pytest.param("0/1 nodes are available: 1 Insufficient cpu.", "", False, id="room"),
        pytest.param('0/1 nodes are available: persistentvolumeclaim "data" not found.', "data", True, id="missing"),
        pytest.param('persistentvolumeclaim "data" not found', "data", True, id="missing, of an older version"),
        pytest.param(
            "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.", "", True, id="none"
        ),
    ],
)
def test_texts_about_claims(text: str, missing: str, about_claims: bool) -> None:
    read = read_scheduler_text(text)
    assert read is not None
    assert (read.missing_claim, read.is_about_claims) == (missing, about_claims)


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
def test_the_sentence_about_a_gang(text: str, sentence: str) -> None:
    assert gang_sentence(text) == sentence
