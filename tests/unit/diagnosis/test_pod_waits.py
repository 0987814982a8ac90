from __future__ import annotations

import datetime as dt

import pytest

from pumice.diagnosis.pod_waits import lost_pods, lost_sentence, wait_sentence
from pumice.model.snapshot import ObservedPod, Waiting
from tests.unit.reconcile.values import NOW, a_pod, ended, later

HINT = "; delete the Node, or taint it with node.kubernetes.io/out-of-service, if it does not come back"


def test_a_pod_waits_in_the_words_of_its_kubelet() -> None:
    waiting = Waiting("ImagePullBackOff", 'Back-off pulling image "x:1".')
    assert wait_sentence(a_pod("worker-1"), waiting) == (
        'worker-1 waits: ImagePullBackOff: Back-off pulling image "x:1"'
    )


@pytest.mark.parametrize(
    ("pod", "now", "lost"),
    [
        pytest.param(a_pod(node="n1"), NOW, False, id="it runs"),
        pytest.param(a_pod(node="n1", is_unreachable=True), NOW, True, id="no contact"),
        pytest.param(a_pod(is_unreachable=True), NOW, False, id="no node"),
        pytest.param(a_pod(node="n1", deleted_at=NOW), later(14), False, id="a kubelet may be late"),
        pytest.param(a_pod(node="n1", deleted_at=NOW), later(15), True, id="it should be gone"),
        pytest.param(ended("worker-0", 1, node="n1", deleted_at=NOW), later(15), False, id="it has ended"),
    ],
)
def test_a_pod_on_a_node_that_does_not_answer(pod: ObservedPod, now: dt.datetime, lost: bool) -> None:
    assert lost_pods([pod], now) == ([pod] if lost else [])


def test_lost_nodes_are_named_with_their_pods() -> None:
    one, other = a_pod("worker-1", node="n2", is_unreachable=True), a_pod(node="n1", is_unreachable=True)
    lost = lost_pods([one, other], NOW)
    assert lost_sentence(lost) == f"nodes n1, n2 do not answer: nothing is known of worker-0, worker-1{HINT}"
    assert lost_sentence([one]) == f"node n2 does not answer: nothing is known of worker-1{HINT}"
