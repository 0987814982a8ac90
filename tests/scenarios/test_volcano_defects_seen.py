"""The defects 48 to 55, which were found when Volcano was run; told as in test_volcano_defects.py."""

from __future__ import annotations

from pumice.reconcile.decision import CreatePod, EngineCommand
from pumice.runtime.ports import EngineError
from tests.scenarios.builders import job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.simulation import Simulation

PLUGINS: dict[str, list[str]] = {"svc": [], "ssh": []}
RESTART = on("PodFailed", "RestartJob")


def test_defect_48_a_job_that_failed_leaves_nothing_behind(simulate: Simulate) -> None:
    """Volcano: after the last restart the hosts' ConfigMap of the job stays."""
    sim = simulate(job(task("worker", 2), RESTART, max_retry=2, plugins=PLUGINS))
    for _ in range(2):
        sim.run().fail("worker-0").let_go()
    assert sim.phase == "Failed"
    assert sim.owned_objects == {}
    assert not sim.has_group()


def test_defect_49_a_policy_with_a_timeout_aborts_a_job_of_many_pods(simulate: Simulate) -> None:
    """Volcano: lost in 7 of 7 runs; the pods are killed and made anew for ever."""
    sim = simulate(job(task("worker", 5), on("PodFailed", "AbortJob", timeout="10s"))).run().fail("worker-2")
    sim.wait(10).let_go()
    assert sim.phases == ["Pending", "Running", "Aborting", "Aborted"]
    assert sim.pods == {"worker-2": "Failed"}
    assert sim.wait(1000).phase == "Aborted"


def test_defect_50_a_failure_is_counted_while_its_timeout_runs(simulate: Simulate) -> None:
    """Volcano: the failed pod counts as running until something else happens."""
    sim = simulate(job(task("worker", 3), on("PodFailed", "AbortJob", timeout="1h"))).run().fail("worker-2")
    assert sim.counts == {"running": 2, "failed": 1}


def test_defect_51_a_job_that_a_plugin_refuses_says_so(simulate: Simulate) -> None:
    """Volcano: ray without its head task gives neither pods nor an event."""
    sim = simulate(job(task("worker", 2), plugins={"ray": []}))
    assert sim.reason[0] == "InvalidJob"
    assert sim.messages("InvalidJob") == [sim.reason[1]]
    assert sim.pods == {}


def test_defect_52_a_restart_of_the_job_keeps_its_keys(simulate: Simulate) -> None:
    """Volcano: a new Service and a new key pair at every restart."""
    sim = simulate(job(task("worker", 2), RESTART, plugins=PLUGINS)).run()
    before = sim.owned_objects
    sim.fail("worker-0").let_go().run()
    assert sim.owned_objects == before


def test_defect_53_a_recreated_job_of_an_old_name_lives(simulate: Simulate) -> None:
    """Volcano: the late clean-up of the old job takes the new one out of the cache; it stays Pending for ever."""
    sim = simulate(job(task("worker", 2), RESTART, plugins=PLUGINS)).run().fail("worker-0").let_go().run()
    sim.world.delete_job(sim.key)
    sim.phases.clear()
    sim.world.put_job(job(task("worker", 2), plugins=PLUGINS))
    sim.world.touch(sim.key)  # the old one's last event comes late
    sim.rest().run().succeed()
    assert sim.phases == ["Pending", "Running", "Completed"]
    assert sim.retries == (0, 0)


def test_defect_54_what_exists_is_counted_though_not_all_could_be_made(simulate: Simulate) -> None:
    """Volcano: with a quota of one pod, one pod exists and the Job counts none."""
    sim = simulate(job(task("worker", 3)), admitted=False)

    def refuse(command: EngineCommand) -> EngineError | None:
        full = isinstance(command, CreatePod) and len(sim.seen) >= 1
        return EngineError("FailedCreate", "exceeded quota") if full else None

    sim.engine.refuse, sim.keeps_trying = refuse, True
    sim.set_group("Inqueue").wait(1)
    assert sim.counts == {"pending": 1}
    assert sim.reason == ("FailedCreate", "exceeded quota")


def test_defect_55_owned_objects_stay_while_pods_are_alive() -> None:
    """Volcano: gone at once, while the running pods of a `minSuccess` job still terminate."""
    sim = Simulation(job(task("worker", 3), min_success=1, plugins=PLUGINS), slow=True).run().succeed("worker-0")
    assert sim.phase == "Completed"
    assert set(sim.owned_objects) == {"Service/train", "ConfigMap/train-svc", "Secret/train-ssh"}
    sim.let_go("worker-1")
    assert len(sim.owned_objects) == 3
    sim.let_go()
    assert sim.owned_objects == {}
