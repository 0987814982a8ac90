"""The defects 48 to 55, which were found when Volcano was run; told as in test_volcano_defects.py."""

from __future__ import annotations

from pumice.reconcile.decision import CreatePod, EngineCommand
from pumice.runtime.ports import EngineError
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import MakeStage
from tests.scenarios.stage import Stage

PLUGINS: dict[str, list[str]] = {"svc": [], "ssh": []}
RESTART = on("PodFailed", "RestartJob")


def test_defect_48_a_job_that_failed_leaves_nothing_behind(stage: MakeStage) -> None:
    """Volcano: after the last restart the hosts' ConfigMap of the job stays."""
    play = stage(job(task("worker", 2), RESTART, max_retry=2, plugins=PLUGINS))
    for _ in range(2):
        play.run().fail("worker-0").let_go()
    assert play.phase == "Failed"
    assert play.owned_objects == {}
    assert not play.has_group()


def test_defect_49_a_policy_with_a_timeout_aborts_a_job_of_many_pods(stage: MakeStage) -> None:
    """Volcano: lost in 7 of 7 runs; the pods are killed and made anew for ever."""
    play = stage(job(task("worker", 5), on("PodFailed", "AbortJob", timeout="10s"))).run().fail("worker-2")
    play.wait(10).let_go()
    assert play.phases == ["Pending", "Running", "Aborting", "Aborted"]
    assert play.pods == {"worker-2": "Failed"}
    assert play.wait(1000).phase == "Aborted"


def test_defect_50_a_failure_is_counted_while_its_timeout_runs(stage: MakeStage) -> None:
    """Volcano: the failed pod counts as running until something else happens."""
    play = stage(job(task("worker", 3), on("PodFailed", "AbortJob", timeout="1h"))).run().fail("worker-2")
    assert play.counts == {"running": 2, "failed": 1}


def test_defect_51_a_job_that_a_plugin_refuses_says_so(stage: MakeStage) -> None:
    """Volcano: ray without its head task gives neither pods nor an event."""
    play = stage(job(task("worker", 2), plugins={"ray": []}))
    assert play.reason[0] == "InvalidJob"
    assert play.messages("InvalidJob") == [play.reason[1]]
    assert play.pods == {}


def test_defect_52_a_restart_of_the_job_keeps_its_keys(stage: MakeStage) -> None:
    """Volcano: a new Service and a new key pair at every restart."""
    play = stage(job(task("worker", 2), RESTART, plugins=PLUGINS)).run()
    before = play.owned_objects
    play.fail("worker-0").let_go().run()
    assert play.owned_objects == before


def test_defect_53_a_recreated_job_of_an_old_name_lives(stage: MakeStage) -> None:
    """Volcano: the late clean-up of the old job takes the new one out of the cache; it stays Pending for ever."""
    play = stage(job(task("worker", 2), RESTART, plugins=PLUGINS)).run().fail("worker-0").let_go().run()
    play.world.delete_job(play.key)
    play.phases.clear()
    play.world.put_job(job(task("worker", 2), plugins=PLUGINS))
    play.world.touch(play.key)  # the old one's last event comes late
    play.rest().run().succeed()
    assert play.phases == ["Pending", "Running", "Completed"]
    assert play.retries == (0, 0)


def test_defect_54_what_exists_is_counted_though_not_all_could_be_made(stage: MakeStage) -> None:
    """Volcano: with a quota of one pod, one pod exists and the Job counts none."""
    play = stage(job(task("worker", 3)), admitted=False)

    def refuse(command: EngineCommand) -> EngineError | None:
        full = isinstance(command, CreatePod) and len(play.seen) >= 1
        return EngineError("FailedCreate", "exceeded quota") if full else None

    play.engine.refuse, play.keeps_trying = refuse, True
    play.set_group("Inqueue").wait(1)
    assert play.counts == {"pending": 1}
    assert play.reason == ("FailedCreate", "exceeded quota")


def test_defect_55_owned_objects_stay_while_pods_are_alive() -> None:
    """Volcano: gone at once, while the running pods of a `minSuccess` job still terminate."""
    play = Stage(job(task("worker", 3), min_success=1, plugins=PLUGINS), slow=True).run().succeed("worker-0")
    assert play.phase == "Completed"
    assert set(play.owned_objects) == {"Service/train", "ConfigMap/train-svc", "Secret/train-ssh"}
    play.let_go("worker-1")
    assert len(play.owned_objects) == 3
    play.let_go()
    assert play.owned_objects == {}
