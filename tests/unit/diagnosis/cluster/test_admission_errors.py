from __future__ import annotations

import pytest

from pumice.diagnosis.cluster.admission_errors import read_refusal
from pumice.diagnosis.why import WhyCode

HEAD = 'pods "train-worker-0" is forbidden: '


@pytest.mark.parametrize(
    ("text", "code", "message", "hints"),
    [
        pytest.param(
            HEAD + "exceeded quota: team, requested: cpu=4,requests.memory=4Gi, used: cpu=2,requests.memory=12Gi, "
            "limited: cpu=8,requests.memory=12Gi",
            WhyCode.QUOTA,
            "ResourceQuota team has no room: requests.memory: 4 GiB wanted, 0 B of 12 GiB free, 4 GiB short",
            ["it fits when other pods of the namespace free requests.memory"],
            id="quota, of which one resource is exhausted",
        ),
        pytest.param(
            "exceeded quota: few, requested: pods=4, used: pods=3, limited: pods=2",
            WhyCode.QUOTA,
            "ResourceQuota few has no room: pods: 4 wanted, 0 of 2 free, 4 short",
            ["it never fits: the quota grants at most 2 of pods"],
            id="quota that is overdrawn",
        ),
        pytest.param(
            "resource quota insufficient, requested: cpu=4, used: cpu=6, limited: cpu=8",
            WhyCode.QUOTA,
            "a ResourceQuota of namespace lab has no room: cpu: 4 wanted, 2 of 8 free, 2 short",
            ["a pod that asks for at most 2 of cpu fits now"],
            id="quota, seen by Volcano's scheduler",
        ),
        pytest.param(
            HEAD + "failed quota: team: must specify limits.cpu for: main; requests.cpu for: main",
            WhyCode.QUOTA,
            "ResourceQuota team wants requests or limits that the pods do not have: limits.cpu for: main; "
            "requests.cpu for: main",
            ["set them in the resources of every container"],
            id="quota without requests",
        ),
        pytest.param(
            HEAD + "[minimum cpu usage per Container is 500m, but request is 250m., maximum x usage per Pod is 1]",
            WhyCode.ADMISSION,
            "a LimitRange of namespace lab refuses the pods: minimum cpu per Container is 500m, but request is 250m",
            ["set the request of cpu to at least 500m"],
            id="LimitRange, minimum",
        ),
        pytest.param(
            HEAD + "maximum memory usage per Pod is 1.5Gi.  No limit is specified",
            WhyCode.ADMISSION,
            "a LimitRange of namespace lab refuses the pods: maximum memory per Pod is 1.5Gi, no limit is set",
            ["set the limit of memory to at most 1.5Gi"],
            id="LimitRange, no limit",
        ),
        pytest.param(
            HEAD + "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000",
            WhyCode.ADMISSION,
            "a LimitRange of namespace lab refuses the pods: cpu max limit to request ratio per Container is 2, "
            "but provided ratio is 4.000000",
            ["bring the limit nearer to the request"],
            id="LimitRange, ratio",
        ),
        pytest.param(
            'admission webhook "x.example.com" denied the request without explanation',
            WhyCode.ADMISSION,
            "admission webhook x.example.com refuses the pods: without explanation",
            ["change what it names, or ask the owner of the webhook"],
            id="webhook without a word",
        ),
        pytest.param(
            'Internal error occurred: failed calling webhook "x.example.com": failed to call webhook: Post '
            '"https://x.ops.svc:443/": dial tcp 10.0.0.1:443: connect: connection refused',
            WhyCode.ADMISSION,
            "admission webhook x.example.com does not answer, so no pod can be created: failed to call webhook: Post "
            '"https://x.ops.svc:443/": dial tcp 10.0.0.1:443: connect: connection refused',
            ["ask its owner to repair it"],
            id="webhook that does not answer",
        ),
        pytest.param(
            HEAD + 'error looking up service account lab/trainer: serviceaccount "trainer" not found',
            WhyCode.ADMISSION,
            "ServiceAccount trainer does not exist",
            ["to create it"],
            id="ServiceAccount",
        ),
        pytest.param(
            HEAD + "no PriorityClass with name urgent was found",
            WhyCode.ADMISSION,
            "PriorityClass urgent does not exist",
            ["to see which exist"],
            id="PriorityClass",
        ),
        pytest.param(
            f"Error creating pods: [{HEAD}no PriorityClass with name urgent was found]",
            WhyCode.ADMISSION,
            "PriorityClass urgent does not exist",
            ["to see which exist"],
            id="the list of Volcano's controller",
        ),
        pytest.param(
            f"Error creating pods: [{HEAD}no PriorityClass with name urgent was found "
            'pods "train-worker-1" is forbidden: no PriorityClass with name low was found]',
            WhyCode.ADMISSION,
            "PriorityClass urgent does not exist",
            ["to see which exist"],
            id="the first of the list of Volcano's controller",
        ),
    ],
)
def test_a_refusal_is_read(text: str, code: WhyCode, message: str, hints: list[str]) -> None:
    refusal = read_refusal(text, "lab")
    assert refusal is not None
    assert (refusal.code, refusal.message) == (code, message)
    assert [hint.text for hint in refusal.hints] == hints
    assert len(refusal.evidence) == 1


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("pods is forbidden: no", id="unknown words"),
        pytest.param("exceeded quota: q, requested: cpu=x, used: cpu=1, limited: cpu=2", id="no amount"),
        pytest.param("exceeded quota: q, requested: cpu=1, used: cpu=1, limited: memory=2", id="no limit"),
        pytest.param("exceeded quota: q, requested: map[cpu:4], used: map[cpu:4], limited: map[cpu:8]", id="no list"),
    ],
)
def test_any_other_text_is_not(text: str) -> None:
    assert read_refusal(text, "lab") is None
