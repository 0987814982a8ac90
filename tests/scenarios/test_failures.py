"""What goes wrong around a job: it waits, says why, counts what exists, and is never terminated for it."""

from __future__ import annotations

import itertools
from typing import ClassVar

import msgspec
import pytest

from pumice.model.pod import Pod
from pumice.model.slot import Slot
from pumice.model.status import JobState
from pumice.plugins.base import Base
from pumice.plugins.registry import Registry
from pumice.reconcile.decision import CreatePod, DeletePod, EngineCommand, Ensure, RemoveCommand
from pumice.runtime.ports import EngineError
from tests.builders import a_container, a_context, a_template
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import MakeStage
from tests.scenarios.stage import Stage

QUOTA = "exceeded quota: pods, requested: pods=1, used: pods=1, limited: pods=1"


def _quota(stage: Stage, most: int) -> Stage:
    """As the API server does when a namespace may have only so many pods."""

    def refuse(command: EngineCommand) -> EngineError | None:
        full = isinstance(command, CreatePod) and len(stage.seen) >= most
        return EngineError("FailedCreate", QUOTA) if full else None

    stage.engine.refuse, stage.keeps_trying = refuse, True
    return stage


def test_a_quota_is_waited_for(stage: MakeStage) -> None:
    play = _quota(stage(job(task("worker", 3)), admitted=False), 1).set_group("Inqueue").wait(0.1)
    for _ in range(3):
        assert play.phase == "Pending"
        assert play.counts == {"pending": 1}
        assert play.reason == ("FailedCreate", QUOTA)
        play.wait(10_000)
    assert play.messages("FailedCreate") == [QUOTA]  # said once
    _quota(play, 3).wait(60)
    assert play.counts == {"pending": 3}
    assert play.reason == ("", "")
    play.keeps_trying = False
    assert play.run().phase == "Running"


def test_a_quota_while_the_job_runs(stage: MakeStage) -> None:
    play = _quota(stage(job(task("worker", 2))).run(), 1).evict("worker-0").let_go().wait(1)
    assert play.phase == "Running"
    assert play.counts == {"running": 1}
    assert play.reason == ("FailedCreate", QUOTA)


def test_several_failures_are_reported_once() -> None:
    play = Stage(job(task("worker", 3)), admitted=False)
    names = itertools.cycle(("one", "two", "three"))

    def refuse(command: EngineCommand) -> EngineError | None:
        return EngineError("FailedCreate", next(names)) if isinstance(command, CreatePod) else None

    play.engine.refuse, play.keeps_trying = refuse, True
    play.set_group("Inqueue").wait(1000)
    assert play.reason == ("FailedCreate", "one (and 2 more)")
    assert play.messages("FailedCreate") == ["one (and 2 more)"]


@pytest.mark.parametrize("kind", [CreatePod, DeletePod, Ensure, RemoveCommand])
def test_an_api_that_is_away_for_a_while_changes_nothing_in_the_end(
    stage: MakeStage, kind: type[EngineCommand]
) -> None:
    play = stage(job(task("worker", 2), on("PodFailed", "RestartJob"), plugins={"svc": []}), admitted=False)
    play.refuse(kind, message="the server is away")
    play.world.touch(play.key)
    if play.key in play.world.groups:
        play.set_group("Inqueue")
    play.wait(30).refuse()
    if play.world.groups[play.key].phase == "":
        play.set_group("Inqueue")
    play.run().refuse(kind, message="the server is away").fail("worker-0").command("SyncJob").let_go().wait(30)
    play.refuse().let_go().run().succeed()
    assert play.phases == ["Pending", "Running", "Restarting", "Pending", "Running", "Completed"]
    assert play.retries == (1, 1)
    assert play.reason == ("", "")


def test_a_completed_job_does_not_keep_the_reason_why_it_waited(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2), min_available=1, min_success=1)).run()
    play.refuse(CreatePod, message="quota", reason="FailedCreate").scale(worker=3).wait(10)
    assert (play.phase, play.reason) == ("Running", ("FailedCreate", "quota"))
    play.succeed("worker-0")
    assert (play.phase, play.reason) == ("Completed", ("", ""))


def test_a_job_that_cannot_be_run_says_why(stage: MakeStage) -> None:
    """As one that got in without the webhook: all findings, one event, and nothing is made."""
    bad = task("Worker_1", 2, template=a_template(a_container(image=""), restartPolicy="Sometimes"))
    play = stage(job(bad, on("PodFailed", "Explode")))
    assert play.phase == "Pending"
    reason, message = play.reason
    assert reason == "InvalidJob"
    for part in ("spec.tasks[0].name", "restartPolicy", "spec.policies[0].action"):
        assert part in message
    assert play.pods == {}
    assert play.owned_objects == {}
    assert not play.has_group()
    play.restart_controller()
    assert len(play.messages("InvalidJob")) == 1


def test_a_plugin_that_refuses_the_job_is_not_silent() -> None:
    play = Stage(job(task("worker", 2), plugins={"ray": []}))
    assert play.reason[0] == "InvalidJob"
    assert "head" in play.reason[1]


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
    play = Stage(job(task("worker", 3), plugins={"odd": []}), context=context)
    assert play.phase == "Pending"
    assert play.reason[0] == "InvalidJob"
    assert "plugin odd failed" in play.reason[1]
    assert play.pods == {}
    Odd.works = True
    assert play.restart_controller().counts == {"pending": 3}
    assert play.run().phase == "Running"


def test_a_job_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    play = Stage(job(task("worker", 2), on("PodEvicted", "RestartJob"))).run()
    metadata = msgspec.structs.replace(play.job.metadata, deletion_timestamp="2000-01-01T00:00:00Z")
    play.world.jobs[play.key] = msgspec.structs.replace(play.job, metadata=metadata)
    done, play.keeps_trying = len(play.engine.done), True  # nobody counts any more
    play.evict("worker-0")
    assert play.engine.done[done:] == []


def test_a_running_job_that_becomes_invalid_keeps_its_phase_and_pods(stage: MakeStage) -> None:
    play = stage(job(task("worker", 2))).run()
    good = play.job.spec
    play.update(msgspec.structs.replace(good, min_available=7))
    assert play.phase == "Running"
    assert play.reason[0] == "InvalidJob"
    assert play.pods == {"worker-0": "Running", "worker-1": "Running"}
    assert len(play.messages("InvalidJob")) == 1
    play.update(good)
    assert play.reason == ("", "")
    assert play.succeed().phase == "Completed"


def test_a_finished_job_is_not_judged_any_more() -> None:
    play = Stage(job(task("worker", 1), ttl_seconds_after_finished=60)).run().succeed()
    status = play.status
    play.update(msgspec.structs.replace(play.job.spec, min_available=7))
    assert play.status.state == status.state
    assert play.key not in play.wait(60).world.jobs


def test_defaults_are_applied_in_memory() -> None:
    """A job that was stored without the webhook's defaults."""
    from tests.builders import a_job, a_task

    bare = a_job(a_task("", 2, a_template(restartPolicy="Never"), max_retry=0), queue="", scheduler_name="")
    play = Stage(bare)
    assert play.pods == {"default0-0": "Pending", "default0-1": "Pending"}
    assert play.status.min_available == 2
    assert play.job.spec.tasks[0].name == ""  # the stored spec is its author's
    assert play.run().succeed().phase == "Completed"


def test_a_client_that_writes_the_phase_itself_is_obeyed(stage: MakeStage) -> None:
    """Some tools abort a job by writing `phase: Aborted` into its status."""
    play = stage(job(task("worker", 2), plugins={"svc": []})).run().succeed("worker-0")
    play.write_status(lambda status: msgspec.structs.replace(status, state=JobState(phase="Aborted"))).let_go()
    assert play.phase == "Aborted"
    assert play.pods == {"worker-0": "Succeeded"}
    assert play.counts == {"succeeded": 1}
    assert not play.has_group()
    play.command("ResumeJob").run()
    assert play.phase == "Running"
    assert play.counts == {"running": 1, "succeeded": 1}


def test_a_client_that_writes_nonsense_does_not_stop_the_controller() -> None:
    play = Stage(job(task("worker", 1))).run()
    play.write_status(lambda status: msgspec.structs.replace(status, state=JobState(phase="Sleeping")))
    assert play.phase == "Running"


def test_a_recreated_job_of_the_same_name_starts_clean(stage: MakeStage) -> None:
    wanted = job(task("worker", 2), on("PodFailed", "RestartJob"), plugins={"svc": [], "ssh": []})
    play = stage(wanted).run().succeed("worker-0").fail("worker-1").let_go().run()
    assert play.retries == (1, 1)
    old = set(play.uids.values())
    play.replace_job(wanted)
    assert play.phases == ["Pending"]
    assert play.retries == (0, 0)
    assert play.status.version == 0
    assert play.counts == {"pending": 2}
    assert not old & set(play.uids.values())
    assert play.run().succeed().phase == "Completed"


def test_pods_of_the_job_before_are_waited_for() -> None:
    """They hold the names that the new job's pods want, are not its own, and meet none of its policies."""
    wanted = job(task("worker", 2), on("", "TerminateJob", events=["PodFailed", "PodEvicted"]))
    play = Stage(wanted, slow=True).run()
    old = {pod.name: pod.uid for pod in play.seen}
    play.world.delete_job(play.key, pods_linger=True)
    play.phases.clear()
    play.world.put_job(wanted)
    play.keeps_trying = True
    play.wait(20)
    assert play.pods == {}
    assert play.counts == {}
    assert play.reason[0] == "FailedCreate"
    for name, uid in old.items():
        play.world.vanish(play.key, name, uid)
    play.wait(60)
    play.keeps_trying = False
    assert play.run().phases == ["Pending", "Running"]
    assert play.reason == ("", "")


def test_conflicts_are_resolved_by_looking_again(stage: MakeStage) -> None:
    from pumice.engines.memory.engine import CallFailure

    play = stage(job(task("worker", 2)))
    calls = itertools.count()
    play.engine.fail_call = lambda call: (
        CallFailure.CONFLICT if call == "write_status" and next(calls) % 2 == 0 else None
    )
    play.run().succeed()
    assert play.phases == ["Pending", "Running", "Completed"]
