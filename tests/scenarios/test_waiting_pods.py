"""A job whose pods cannot start, or cannot end, says why: once, and until it is over."""

from __future__ import annotations

import pytest

from pumice.model.snapshot import ContainerEnd, PodPhase, Waiting
from tests.scenarios.builders import job, on, task
from tests.scenarios.simulation import Simulation

PULL = Waiting("ErrImagePull", "registry.example/none:1: 404 Not Found")
BACK_OFF = Waiting("ImagePullBackOff", 'Back-off pulling image "registry.example/none:1"')
CRASHES = Waiting("CrashLoopBackOff", "back-off 10s restarting failed container=c")


def warnings(sim: Simulation) -> list[str]:
    return [event.reason for event in sim.events if event.severity == "Warning"]


def test_an_image_that_cannot_be_pulled_is_reported_once_and_until_the_pod_is_ready() -> None:
    sim = Simulation(job(task("w", 2))).change("w-0", waiting=PULL)
    assert sim.reason == ("ErrImagePull", "w-0 waits: ErrImagePull: registry.example/none:1: 404 Not Found")
    sim.change("w-1", waiting=PULL)
    for _ in range(10):
        sim.change("w-0", waiting=BACK_OFF).change("w-0", waiting=PULL).wait(20)
    assert sim.reason == (
        "ImagePullBackOff",
        'w-0 waits: ImagePullBackOff: Back-off pulling image "registry.example/none:1"',
    )
    assert warnings(sim) == ["ErrImagePull"]
    assert sim.phase == "Pending"
    sim.change("w-0", waiting=None)
    assert sim.reason[0] == "ImagePullBackOff"
    sim.run("w-0")
    assert sim.reason[1].startswith("w-1 waits: ErrImagePull")
    sim.change("w-1", waiting=None).run("w-1")
    assert (sim.phase, sim.reason) == ("Running", ("", ""))
    assert warnings(sim) == ["ErrImagePull", "ErrImagePull"]


@pytest.mark.parametrize("restarted", [False, True], ids=["one controller", "controllers that come and go"])
def test_a_crash_loop_does_not_flap(restarted: bool) -> None:
    """A container without a readiness probe is ready as soon as it runs, and crashes a moment later."""
    sim = Simulation(job(task("w", 1))).run()
    for restarts in range(1, 6):
        sim.change("w-0", waiting=CRASHES, ready=False, restarts=restarts).wait(20)
        if restarted:
            sim.restart_controller()
        assert sim.reason[0] == "CrashLoopBackOff"
        sim.change("w-0", waiting=None, ready=True, changed_at=sim.now).wait(9.9)
        assert sim.reason[0] == "CrashLoopBackOff"
    assert warnings(sim) == ["CrashLoopBackOff"]
    passes = sim.passes
    sim.wait(0.1)
    assert sim.reason == ("", "")
    assert sim.wait(3600).passes <= passes + 5


def test_the_wait_of_a_replaced_pod_begins_again() -> None:
    sim = Simulation(job(task("w", 1), on("PodPending", "RestartPod", timeout="60s"))).change("w-0", waiting=PULL)
    uid = sim.uids["w-0"]
    sim.wait(60)
    assert sim.uids["w-0"] != uid
    assert sim.reason == ("", "")
    (message,) = sim.messages("ExecuteAction")
    assert message == (
        "PodPending of w-0: ErrImagePull: registry.example/none:1: 404 Not Found; "
        "policy spec.policies[0] PodPending: RestartPod"
    )


def test_unschedulable_goes_as_soon_as_the_pod_is_scheduled() -> None:
    sim = Simulation(job(task("w", 1)), gang=False)
    sim.change("w-0", waiting=Waiting("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu."))
    assert sim.reason == ("Unschedulable", "w-0 waits: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu")
    sim.change("w-0", waiting=Waiting("Unschedulable", "0/2 nodes are available: 2 Insufficient cpu."))
    assert "0/2" in sim.reason[1]
    assert sim.change("w-0", waiting=None).reason == ("", "")
    assert warnings(sim) == ["Unschedulable"]


def test_a_pod_that_ends_is_waited_for_no_more() -> None:
    sim = Simulation(job(task("w", 1))).run().change("w-0", waiting=CRASHES, restarts=1)
    sim.change("w-0", waiting=None, changed_at=sim.now).end_containers("w-0", ContainerEnd("c", 3))
    assert sim.phase == "Failed"
    assert sim.reason == ("PodFailed", "w-0 failed first: exit code 3 in container c")


def test_a_node_that_does_not_answer_is_named() -> None:
    """Its pods are deleted, but no kubelet is there to end them."""
    sim = Simulation(job(task("w", 2)), slow=True).run()
    for name in ("w-0", "w-1"):
        sim.change(name, node="n1")
    sim.ask_out("w-0", "w-1").wait(44)
    assert sim.reason == ("", "")
    sim.wait(1)
    assert sim.phase == "Running"
    assert sim.reason[0] == "NodeLost"
    assert sim.reason[1].startswith("node n1 does not answer: nothing is known of w-0, w-1; delete the Node")
    passes = sim.passes
    assert sim.wait(3600).passes <= passes + 5
    assert warnings(sim) == ["NodeLost"]
    sim.let_go()
    assert sim.reason == ("", "")
    assert sim.counts == {"pending": 2}


def test_a_job_that_winds_down_reports_a_lost_node_by_an_event() -> None:
    sim = Simulation(job(task("w", 1)), slow=True).run().change("w-0", node="n1").command("AbortJob").wait(45)
    assert sim.phase == "Aborting"
    assert sim.reason[0] == "Command"
    assert warnings(sim) == ["NodeLost"]
    sim.wait(3600)
    assert warnings(sim) == ["NodeLost"]


def test_an_unreachable_pod_is_reported_at_once() -> None:
    sim = Simulation(job(task("w", 2))).run().change("w-1", phase=PodPhase.UNKNOWN, node="n2", is_unreachable=True)
    assert sim.reason[0] == "NodeLost"
    assert "node n2 does not answer: nothing is known of w-1" in sim.reason[1]
    assert sim.change("w-1", phase=PodPhase.RUNNING, node="", is_unreachable=False).reason == ("", "")
