"""What a pod of this machine shows of itself."""

from __future__ import annotations

import datetime as dt
from typing import NoReturn, cast

from pumice.engines.local.kubelet.container import Container
from pumice.engines.local.kubelet.pod import LocalPod
from pumice.engines.local.sandbox.sandbox_port import SandboxPort
from pumice.model import keys
from pumice.model.snapshot import ContainerEnd, PodPhase, Waiting

NOW = dt.datetime(2026, 8, 1, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(seconds=1)
NO_SANDBOX = cast(SandboxPort, None)


def never_started(_attempt: int) -> NoReturn:
    raise AssertionError("it is only looked at")


def a_container() -> Container:
    return Container(
        manifest={"name": "main"},
        sandbox=NO_SANDBOX,
        make_spec=never_started,
        open_logs=never_started,
        changed=lambda: None,
        restarted=lambda _end, _count: None,
        now=lambda: NOW,
    )


def a_pod(container: Container) -> LocalPod:
    annotations = {keys.TASK_SPEC: "w", keys.TASK_INDEX: "0", keys.JOB_VERSION: "1", keys.JOB_RETRY_COUNT: "0"}
    manifest = {"metadata": {"name": "j-w-0", "annotations": annotations}, "spec": {"containers": [{"name": "main"}]}}
    return LocalPod(
        manifest=manifest,
        uid="u",
        address="10.77.0.2",
        sandbox=NO_SANDBOX,
        make_container=lambda _manifest: container,
        changed=lambda: None,
        now=lambda: NOW,
        created_at=NOW,
    )


def test_each_change_is_observed_and_nothing_else_makes_a_new_value() -> None:
    container = a_container()
    pod = a_pod(container)
    seen = [pod.observed()]

    def look() -> None:
        seen.append(pod.observed())
        assert pod.observed() is seen[-1]
        assert seen[-1] != seen[-2]

    pod.phase = PodPhase.RUNNING
    pod.containers.append(container)
    container.changed_at = NOW
    look()
    container.ready = True
    look()
    end = ContainerEnd("main", 1, "", 0, LATER)
    container.ends.append(end)
    look()
    assert seen[-1].ends == (end,)
    container.waiting_for = "CrashLoopBackOff"
    look()
    assert isinstance(seen[-1].waiting, Waiting)
    container.waiting_for, container.restarts = "", 1
    look()
    pod.deleted_at = LATER
    look()
    pod.reason = "Evicted"
    look()
    pod.message = "too large"
    look()
    pod.phase = PodPhase.FAILED
    look()
    assert (seen[0].phase, seen[-1].phase, seen[-1].restarts) == (PodPhase.PENDING, PodPhase.FAILED, 1)
