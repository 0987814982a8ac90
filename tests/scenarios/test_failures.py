"""What goes wrong around a job: it waits, says why, counts what exists, and is never terminated for it."""

from __future__ import annotations

import itertools
from typing import ClassVar

import msgspec
import pytest

from pumice.model.job import JobState
from pumice.model.pod import Pod
from pumice.model.slot import Slot
from pumice.plugins.base import Base
from pumice.plugins.registry import Registry
from pumice.reconcile.decision import CreatePod, DeletePod, EngineCommand, Ensure, RemoveCommand
from pumice.runtime.ports import EngineError
from tests.builders import a_container, a_context, a_template
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import Simulation

QUOTA = "exceeded quota: pods, requested: pods=1, used: pods=1, limited: pods=1"

NO_ROOM = "ResourceQuota pods has no room: pods: 1 wanted, 0 of 1 free, 1 short"


def _quota(sim: Simulation, most: int) -> Simulation:
    """As the API server does when a namespace may have only so many pods."""

    def refuse(command: EngineCommand) -> EngineError | None:
        full = isinstance(command, CreatePod) and len(sim.seen) >= most
        return EngineError("FailedCreate", QUOTA) if full else None

    sim.engine.refuse, sim.keeps_trying = refuse, True
    return sim


def test_a_quota_is_waited_for(simulate: Simulate) -> None:
    sim = _quota(simulate(job(task("worker", 3)), admitted=False), 1).set_group("Inqueue").wait(0.1)
    for _ in range(3):
        assert sim.phase == "Pending"
        assert sim.counts == {"pending": 1}
        assert sim.reason == ("FailedCreate", NO_ROOM)
        sim.wait(10_000)
    assert sim.messages("FailedCreate") == [QUOTA]  # said once
    _quota(sim, 3).wait(60)
    assert sim.counts == {"pending": 3}
    assert sim.reason == ("", "")
    sim.keeps_trying = False
    assert sim.run().phase == "Running"


def test_a_quota_while_the_job_runs(simulate: Simulate) -> None:
    sim = _quota(simulate(job(task("worker", 2))).run(), 1).evict("worker-0").let_go().wait(1)
    assert sim.phase == "Running"
    assert sim.counts == {"running": 1}
    assert sim.reason == ("FailedCreate", NO_ROOM)


def test_several_failures_are_reported_once() -> None:
    sim = Simulation(job(task("worker", 3)), admitted=False)
    names = itertools.cycle(("one", "two", "three"))

    def refuse(command: EngineCommand) -> EngineError | None:
        return EngineError("FailedCreate", next(names)) if isinstance(command, CreatePod) else None

    sim.engine.refuse, sim.keeps_trying = refuse, True
    sim.set_group("Inqueue").wait(1000)
    assert sim.reason == ("FailedCreate", "one (and 2 more)")
    assert sim.messages("FailedCreate") == ["one (and 2 more)"]


@pytest.mark.parametrize("kind", [CreatePod, DeletePod, Ensure, RemoveCommand])
def test_an_api_that_is_away_for_a_while_changes_nothing_in_the_end(
    simulate: Simulate, kind: type[EngineCommand]
) -> None:
    sim = simulate(job(task("worker", 2), on("PodFailed", "RestartJob"), plugins={"svc": []}), admitted=False)
    sim.refuse(kind, message="the server is away")
    sim.world.touch(sim.key)
    if sim.key in sim.world.groups:
        sim.set_group("Inqueue")
    sim.wait(30).refuse()
    if sim.world.groups[sim.key].phase == "":
        sim.set_group("Inqueue")
    sim.run().refuse(kind, message="the server is away").fail("worker-0").command("SyncJob").let_go().wait(30)
    sim.refuse().let_go().run().succeed()
    assert sim.phases == ["Pending", "Running", "Restarting", "Pending", "Running", "Completed"]
    assert sim.retries == (1, 1)
    assert sim.reason == ("", "")


def test_a_completed_job_does_not_keep_the_reason_why_it_waited(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2), min_available=1, min_success=1)).run()
    sim.refuse(CreatePod, message="quota", reason="FailedCreate").scale(worker=3).wait(10)
    assert (sim.phase, sim.reason) == ("Running", ("FailedCreate", "quota"))
    sim.succeed("worker-0")
    assert (sim.phase, sim.reason) == ("Completed", ("", ""))


def test_a_job_that_cannot_be_run_says_why(simulate: Simulate) -> None:
    """As one that got in without the webhook: all findings, one event, and nothing is made."""
    bad = task("Worker_1", 2, template=a_template(a_container(image=""), restartPolicy="Sometimes"))
    sim = simulate(job(bad, on("PodFailed", "Explode")))
    assert sim.phase == "Pending"
    reason, message = sim.reason
    assert reason == "InvalidJob"
    for part in ("spec.tasks[0].name", "restartPolicy", "spec.policies[0].action"):
        assert part in message
    assert sim.pods == {}
    assert sim.owned_objects == {}
    assert not sim.has_group()
    sim.restart_controller()
    assert len(sim.messages("InvalidJob")) == 1


def test_a_plugin_that_refuses_the_job_is_not_silent() -> None:
    sim = Simulation(job(task("worker", 2), plugins={"ray": []}))
    assert sim.reason[0] == "InvalidJob"
    assert "head" in sim.reason[1]


def test_a_plugin_that_breaks_takes_nothing_with_it() -> None:
    """A third party's, which fails at the second pod only, so that admission could not know."""

    class Odd(Base):
        name: ClassVar[str] = "odd"
        works: ClassVar[bool] = False

        def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
            if slot.index == 1 and not self.works:
                raise KeyError("lost")
            return pod

    context = a_context(Registry(third_party={"odd": Odd}))
    sim = Simulation(job(task("worker", 3), plugins={"odd": []}), context=context)
    assert sim.phase == "Pending"
    assert sim.reason[0] == "InvalidJob"
    assert "plugin odd failed" in sim.reason[1]
    assert sim.pods == {}
    Odd.works = True
    assert sim.restart_controller().counts == {"pending": 3}
    assert sim.run().phase == "Running"


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    sim = Simulation(job(task("worker", 2), on("PodEvicted", "RestartJob"))).run()
    metadata = msgspec.structs.replace(sim.job.metadata, deletion_timestamp="2000-01-01T00:00:00Z")
    sim.world.jobs[sim.key] = msgspec.structs.replace(sim.job, metadata=metadata)
    done, sim.keeps_trying = len(sim.engine.done), True  # the counts of a job that is deleted stay as they are
    sim.evict("worker-0")
    assert sim.engine.done[done:] == []


def test_a_running_job_that_becomes_invalid_keeps_its_phase_and_pods(simulate: Simulate) -> None:
    sim = simulate(job(task("worker", 2))).run()
    good = sim.job.spec
    sim.update(msgspec.structs.replace(good, min_available=7))
    assert sim.phase == "Running"
    assert sim.reason[0] == "InvalidJob"
    assert sim.pods == {"worker-0": "Running", "worker-1": "Running"}
    assert len(sim.messages("InvalidJob")) == 1
    sim.update(good)
    assert sim.reason == ("", "")
    assert sim.succeed().phase == "Completed"


def test_a_finished_job_is_not_judged_any_more() -> None:
    sim = Simulation(job(task("worker", 1), ttl_seconds_after_finished=60)).run().succeed()
    status = sim.status
    sim.update(msgspec.structs.replace(sim.job.spec, min_available=7))
    assert sim.status.state == status.state
    assert sim.key not in sim.wait(60).world.jobs


def test_defaults_are_applied_in_memory() -> None:
    """A job that was stored without the webhook's defaults."""
    from tests.builders import a_job, a_task

    bare = a_job(a_task("", 2, a_template(restartPolicy="Never"), max_retry=0), queue="", scheduler_name="")
    sim = Simulation(bare)
    assert sim.pods == {"default0-0": "Pending", "default0-1": "Pending"}
    assert sim.status.min_available == 2
    assert sim.job.spec.tasks[0].name == ""  # the stored spec is its author's
    assert sim.run().succeed().phase == "Completed"


def test_a_client_that_writes_the_phase_itself_is_obeyed(simulate: Simulate) -> None:
    """Some tools abort a job by writing `phase: Aborted` into its status."""
    sim = simulate(job(task("worker", 2), plugins={"svc": []})).run().succeed("worker-0")
    sim.write_status(lambda status: msgspec.structs.replace(status, state=JobState(phase="Aborted"))).let_go()
    assert sim.phase == "Aborted"
    assert sim.pods == {"worker-0": "Succeeded"}
    assert sim.counts == {"succeeded": 1}
    assert not sim.has_group()
    sim.command("ResumeJob").run()
    assert sim.phase == "Running"
    assert sim.counts == {"running": 1, "succeeded": 1}


def test_a_client_that_writes_nonsense_does_not_stop_the_controller() -> None:
    sim = Simulation(job(task("worker", 1))).run()
    sim.write_status(lambda status: msgspec.structs.replace(status, state=JobState(phase="Sleeping")))
    assert sim.phase == "Running"


def test_a_recreated_job_of_the_same_name_starts_clean(simulate: Simulate) -> None:
    wanted = job(task("worker", 2), on("PodFailed", "RestartJob"), plugins={"svc": [], "ssh": []})
    sim = simulate(wanted).run().succeed("worker-0").fail("worker-1").let_go().run()
    assert sim.retries == (1, 1)
    old = set(sim.uids.values())
    sim.replace_job(wanted)
    assert sim.phases == ["Pending"]
    assert sim.retries == (0, 0)
    assert sim.status.version == 0
    assert sim.counts == {"pending": 2}
    assert not old & set(sim.uids.values())
    assert sim.run().succeed().phase == "Completed"


def test_pods_of_the_job_before_are_waited_for() -> None:
    """They hold the names that the new job's pods want, are not its own, and meet none of its policies."""
    wanted = job(task("worker", 2), on("", "TerminateJob", events=["PodFailed", "PodEvicted"]))
    sim = Simulation(wanted, slow=True).run()
    old = {pod.name: pod.uid for pod in sim.seen}
    sim.world.delete_job(sim.key, pods_linger=True)
    sim.phases.clear()
    sim.world.put_job(wanted)
    sim.keeps_trying = True
    sim.wait(20)
    assert sim.pods == {}
    assert sim.counts == {}
    assert sim.reason[0] == "FailedCreate"
    for name, uid in old.items():
        sim.world.vanish(sim.key, name, uid)
    sim.wait(60)
    sim.keeps_trying = False
    assert sim.run().phases == ["Pending", "Running"]
    assert sim.reason == ("", "")


def test_conflicts_are_resolved_by_looking_again(simulate: Simulate) -> None:
    from pumice.engines.memory.engine import CallFailure

    sim = simulate(job(task("worker", 2)))
    calls = itertools.count()
    sim.engine.fail_call = lambda call: (
        CallFailure.CONFLICT if call == "write_status" and next(calls) % 2 == 0 else None
    )
    sim.run().succeed()
    assert sim.phases == ["Pending", "Running", "Completed"]
