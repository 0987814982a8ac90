"""The verdict in words."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from pumice.diagnosis.verdict import ActedPolicy, FailedPod, Verdict, plain_verdict
from pumice.diagnosis.verdict_lines import heading_text, lead_text, verdict_lines

POLICY = ActedPolicy(event="PodFailed", action="AbortJob", path="spec.policies[0]", where="job.yaml:3", line=3)


def a_failed_pod(index: int, after: float | None = 1.0, **fields: Any) -> FailedPod:
    return replace(FailedPod(pod=f"w-{index}", container="w", code=1, signal=None, reason="", after=after), **fields)


def a_verdict(**fields: Any) -> Verdict:
    plain = replace(plain_verdict("PodFailed", ""), pod="w-0", container="w", code=1, age=5.0)
    return replace(plain, **fields)


def test_all_rows_of_a_failure() -> None:
    found = a_verdict(
        line="words",
        attempt=2,
        max_attempts=3,
        followers=tuple(a_failed_pod(index, index) for index in range(1, 6)),
        message="all 3 attempts failed (maxRetry)",
        policy=POLICY,
        next="pumice run x",
    )
    assert verdict_lines(found) == (
        "w-0 failed first: exit code 1 after 5.0s (attempt 2 of 3)",
        "  last line     words",
        f"  then          {', '.join(f'w-{each} (exit code 1, {each}.0s later)' for each in (1, 2, 3))} and 2 more",
        "  why           all 3 attempts failed (maxRetry)",
        "  policy        PodFailed -> AbortJob (policies[0], job.yaml:3)",
        "  next          pumice run x",
    )
    # What is only sometimes of use is left out where there is no room.
    assert not any(line.startswith("  why ") for line in verdict_lines(replace(found, log="/w.log")))


def test_what_failed_alone_has_its_own_row() -> None:
    found = a_verdict(followers=(a_failed_pod(1, -0.5),), independent=(a_failed_pod(2, 90.0), a_failed_pod(3, None)))
    assert verdict_lines(found)[1:] == (
        "  then          w-1 (exit code 1, 0.5s earlier, because of it)",
        "  also failed   w-2 (exit code 1, 1m30s later), w-3 (exit code 1)",
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({"code": 137, "signal": 9}, "signal 9 (SIGKILL) after 5.0s", id="signal"),
        pytest.param({"exit_reason": "OOMKilled"}, "exit code 1, OOMKilled after 5.0s", id="reason"),
        pytest.param({"container": "first"}, "exit code 1 in container first after 5.0s", id="init container"),
        pytest.param({"age": None, "container": ""}, "exit code 1", id="unknown"),
    ],
)
def test_the_heading_says_how_the_pod_failed(fields: dict[str, Any], text: str) -> None:
    assert heading_text(a_verdict(**fields)) == f"w-0 failed first: {text}"


def test_the_cause_replaces_the_last_line() -> None:
    assert verdict_lines(a_verdict(line="words", cause="no memory"))[1:] == ("  cause         no memory",)


@pytest.mark.parametrize(
    ("followers", "peers", "rows"),
    [
        pytest.param(
            (a_failed_pod(1, 0.1, line="lost"), a_failed_pod(2, 0.2)),
            2,
            (
                "  last line     w-1: lost",
                "  then          w-1 (exit code 1, 0.1s later), w-2 (exit code 1, 0.2s later)",
            ),
            id="several",
        ),
        pytest.param((a_failed_pod(1, 0.1),), 1, ("  then          w-1 (exit code 1, 0.1s later)",), id="one"),
    ],
)
def test_a_pod_that_left_early(followers: tuple[FailedPod, ...], peers: int, rows: tuple[str, ...]) -> None:
    found = a_verdict(code=0, followers=followers, peers=peers)
    others = "1 other" if peers == 1 else f"{peers} others"
    heading = f"w-0 ended first, with exit code 0, while {others} still ran"
    assert verdict_lines(found) == (heading, *rows)
    assert lead_text(found) == "w-0 ended first"


def test_a_run_without_a_failure() -> None:
    assert verdict_lines(plain_verdict("NotStarted", "no image\n  hint: pull it")) == ("no image", "  hint: pull it")
    assert lead_text(plain_verdict("", "x")) == ""


def test_a_stopped_run() -> None:
    stopped = a_verdict(stopped=True, message="too long", line="one", logs="/run/pods")
    assert lead_text(stopped) == ""
    assert verdict_lines(stopped) == (
        "too long",
        "  failed        w-0: exit code 1 after 5.0s: one",
        "  logs          /run/pods",
    )
    assert verdict_lines(replace(stopped, followers=(a_failed_pod(1),), log="/w.log")) == (
        "too long",
        "  failed        w-0: exit code 1 after 5.0s: one; then w-1 (exit code 1, 1.0s later)",
        "  log           /w.log",
    )
    assert verdict_lines(replace(stopped, message="")) == ()


def test_what_restarted_and_what_failed_before_a_stop() -> None:
    plain = replace(plain_verdict("Timeout", "too long", 0), stopped=True)
    once, often = a_failed_pod(1, None, restarts=1), a_failed_pod(2, None, restarts=5, line="no torch")
    found = replace(plain, restarted=(often, once), earlier=a_failed_pod(0, None, attempt=2, age=1.0))
    assert verdict_lines(found)[1:] == (
        "  restarted     w-2: 5 restarts, last exit code 1: no torch; 1 more restarted",
        "  before        attempt 2: w-0 failed, exit code 1 after 1.0s",
    )
    assert verdict_lines(replace(plain, restarted=(once,)))[1:] == ("  restarted     w-1: 1 restart, last exit code 1",)


def test_what_the_pods_did_as_far_as_there_is_room() -> None:
    doing = tuple(f"w-{index}: waits" for index in range(7))
    stopped = replace(plain_verdict("Timeout", "too long", 0), stopped=True, doing=doing, next="x")
    assert verdict_lines(stopped)[1:-1] == (
        "  was doing     w-0: waits",
        "  was doing     w-1: waits",
        "  was doing     w-2: waits",
        "  was doing     w-3: waits; and 3 more",
    )
    full = a_verdict(line="x", followers=(a_failed_pod(1),), policy=POLICY, log="/l", next="x", doing=doing)
    assert not any(line.startswith("  waited for") for line in verdict_lines(full))
    assert verdict_lines(a_verdict(doing=doing[:1]))[1] == "  waited for    w-0: waits"
