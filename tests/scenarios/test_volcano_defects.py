"""Volcano's defects, one test each, named by their numbers: what is right, and in the docstring what Volcano gives.

The numbers are those of the list that docs/differences.md refers to.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pumice.engines.memory.engine import CallFailure
from pumice.model.job import VolumeSpec
from pumice.model.snapshot import ContainerEnd
from pumice.reconcile.decision import CreatePod, Ensure
from tests.builders import a_container, a_template
from tests.scenarios import test_volcano_defects_seen
from tests.scenarios.builders import after, job, on, task
from tests.scenarios.conftest import Simulate
from tests.scenarios.crashes import with_a_crash
from tests.scenarios.simulation import Simulation

PLUGINS: dict[str, list[str]] = {"svc": [], "ssh": []}
RESTART = on("PodFailed", "RestartJob")


def test_defect_01_counts_stay_true_after_the_end(simulate: Simulate) -> None:
    """Volcano: a Completed job with three succeeded pods shows `succeeded: 0` and no counts by task."""
    sim = simulate(job(task("worker", 3))).run().succeed()
    assert sim.counts == {"succeeded": 3}
    assert sim.by_task == {"worker": {"Succeeded": 3}}
    failed = simulate(job(task("worker", 3))).run().fail("worker-0").succeed()
    assert failed.counts == {"succeeded": 2, "failed": 1}


def test_defect_02_a_targeted_restart_leaves_shared_objects_alone(simulate: Simulate) -> None:
    """Volcano: Service, ConfigMap and Secret are deleted and made anew, with a new key, while the others run on."""
    sim = simulate(job(task("master", 1), task("worker", 2), on("PodFailed", "RestartTask"), plugins=PLUGINS)).run()
    before, done = sim.owned_objects, len(sim.engine.done)
    sim.fail("worker-0")
    assert sim.owned_objects == before
    assert sim.let_go().run().owned_objects == before
    assert not [one for one in sim.engine.done[done:] if isinstance(one, Ensure)]


@pytest.mark.parametrize(
    ("policy", "happens", "phase"),
    [
        pytest.param(RESTART, lambda sim: sim.fail("worker-0"), "Pending", id="failure"),
        pytest.param(on("PodEvicted", "RestartJob"), lambda sim: sim.evict("worker-0"), "Pending", id="eviction"),
        pytest.param(on("TaskCompleted", "CompleteJob"), lambda sim: sim.succeed("ps-0"), "Completed", id="completion"),
    ],
)
def test_defect_03_what_happens_while_the_controller_is_away_meets_its_policy(
    simulate: Simulate, policy: Any, happens: Callable[[Simulation], Simulation], phase: str
) -> None:
    """Volcano: all three are lost; the job stays Running with a failed pod for ever."""
    sim = simulate(job(task("ps", 1), task("worker", 2), policy)).run().down()
    happens(sim).let_go().up().let_go()
    assert sim.phase == phase


def test_defect_03_the_policy_comes_before_the_end_of_the_job(simulate: Simulate) -> None:
    """Volcano: the plain sync may be faster, and the job is Failed before its policy is asked (upstream #3967)."""
    sim = simulate(job(task("worker", 1), RESTART)).run().fail("worker-0")
    assert sim.phases == ["Pending", "Running", "Restarting", "Pending"]


def test_defect_04_a_pending_timeout_does_not_hit_pods_that_run(simulate: Simulate) -> None:
    """Volcano: after a restart of the controller every healthy pod is killed when the timeout has passed."""
    sim = simulate(job(task("worker", 2), on("PodPending", "RestartJob", timeout="5s"))).run().restart_controller()
    before = sim.uids
    assert sim.wait(600).uids == before
    assert sim.phase == "Running"


def test_defect_05_unknown_meets_its_policy_every_time(simulate: Simulate) -> None:
    """Volcano: the first `Unknown` restarts the job, later ones do nothing."""
    sim = simulate(job(task("worker", 2), on("Unknown", "RestartJob"), max_retry=9)).run()
    for version in (1, 2, 3):
        sim.set_group("Unknown").let_go().run()
        assert sim.status.version == version


@pytest.mark.parametrize(
    ("action", "end"), [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")]
)
def test_defect_06_a_suspend_during_a_restart_is_obeyed(action: str, end: str) -> None:
    """Volcano: the command is taken for another restart; the job runs on."""
    sim = Simulation(job(task("worker", 2), RESTART), slow=True).run().fail("worker-0")
    assert sim.phase == "Restarting"
    assert sim.command(action).let_go().phase == end
    assert sim.wait(1000).restart_controller().phase == end


def test_defect_07_resuming_and_evictions_spend_nothing(simulate: Simulate) -> None:
    """Volcano: the third resume of a job that never failed ends it as Failed."""
    sim = simulate(job(task("worker", 2), on("PodEvicted", "RestartJob"), max_retry=3)).run()
    for _ in range(5):
        sim.command("AbortJob").let_go().command("ResumeJob").let_go().run()
        sim.evict("worker-0").let_go().let_go().run()
    assert sim.phase == "Running"
    assert sim.retries == (5, 0)


@pytest.mark.parametrize("failure", ["claim", "quota", "plugin"])
def test_defect_08_errors_that_last_do_not_end_the_job(simulate: Simulate, failure: str) -> None:
    """Volcano: an unknown claim or a quota terminates the job after 160 s; a plugin's refusal is silent."""
    volumes = [VolumeSpec(mount_path="/data", volume_claim_name="lost")] if failure == "claim" else []
    sim = simulate(job(task("worker", 2), volumes=volumes, plugins={"ray": []} if failure == "plugin" else {}))
    if failure == "quota":
        sim.refuse(CreatePod, message="exceeded quota", reason="FailedCreate").evict("worker-0", "worker-1").let_go()
    sim.wait(100_000)
    assert sim.phase == "Pending"
    reasons = {"claim": "ClaimMissing", "quota": "FailedCreate", "plugin": "InvalidJob"}
    assert sim.reason[0] == reasons[failure]
    assert sim.reason[1] != ""


def test_defect_09_an_eviction_is_no_failure() -> None:
    """Volcano: the process of a deleted pod ends with 143, and PodFailed is faster than PodEvicted."""
    policies = on("PodFailed", "TerminateJob"), on("PodEvicted", "RestartJob")
    sim = Simulation(job(task("worker", 2), *policies), slow=True).run().ask_out("worker-0").fail("worker-0", 143)
    assert sim.let_go().phases == ["Pending", "Running", "Restarting", "Pending"]


def test_defect_10_scaling_down_is_no_eviction(simulate: Simulate) -> None:
    """Volcano: scaling from 3 to 1 restarts the whole job."""
    sim = simulate(job(task("worker", 3), on("PodEvicted", "RestartJob"))).run()
    before = sim.uids["worker-0"]
    sim.scale(worker=1).let_go()
    assert sim.phases == ["Pending", "Running"]
    assert sim.uids == {"worker-0": before}


def test_defect_10_removing_a_succeeded_pod_is_no_eviction(simulate: Simulate) -> None:
    """Volcano: the whole job is restarted."""
    sim = simulate(job(task("worker", 2), on("PodEvicted", "RestartJob"))).run().succeed("worker-0").evict("worker-0")
    assert sim.phases == ["Pending", "Running"]
    assert sim.counts == {"running": 1, "succeeded": 1}


def test_defect_11_a_timeout_survives_a_restart_of_the_controller(simulate: Simulate) -> None:
    """Volcano: timers are kept in memory only."""
    sim = simulate(job(task("worker", 3), on("PodFailed", "AbortJob", timeout="60s"))).run().fail("worker-1")
    for _ in range(5):
        sim.wait(10).restart_controller()
    assert sim.phase == "Running"
    assert sim.wait(10).let_go().phase == "Aborted"


def test_defect_11_the_timeout_of_a_deleted_job_does_not_hit_its_successor(simulate: Simulate) -> None:
    """Volcano: the new job, without any policy, has all its pods killed when the dead job's timer fires."""
    sim = simulate(job(task("worker", 2), on("PodFailed", "AbortJob", timeout="60s"))).run().fail("worker-0").wait(30)
    sim.replace_job(job(task("worker", 2)))
    before = sim.uids
    assert sim.wait(600).uids == before
    assert sim.phase == "Pending"


def test_defect_11_a_delayed_restart_is_counted(simulate: Simulate) -> None:
    """Volcano: `retryCount` stays 0, so that `maxRetry` never bites."""
    sim = simulate(job(task("worker", 3), on("PodFailed", "RestartJob", timeout="5s"), max_retry=2))
    for attempt in (1, 2):
        sim.run().fail("worker-0").wait(5).let_go()
        assert sim.retries == (attempt, attempt)
    assert sim.phase == "Failed"


def test_defect_12_a_finished_job_is_left_alone(simulate: Simulate) -> None:
    """Volcano: every event of a pod of a finished job counts its version up and writes its status."""
    sim = simulate(job(task("worker", 2))).run().succeed()
    before = sim.job
    sim.change("worker-0", ready=False).change("worker-1", restarts=1)
    sim.evict("worker-1").restart_controller()
    assert sim.job == before  # not even its resourceVersion has moved


def test_defect_12_a_failed_write_counts_nothing(simulate: Simulate) -> None:
    """Volcano: the version is counted up in the shared cache before the write, and again at the next try."""
    sim = simulate(job(task("worker", 2), RESTART)).run()
    tries = itertools.count()
    sim.engine.fail_call = lambda call: CallFailure.NOT_DONE if call == "write_status" and next(tries) < 4 else None
    sim.keeps_trying = True
    sim.fail("worker-0").wait(10)
    sim.keeps_trying = False
    sim.let_go()
    assert sim.status.version == 1
    assert sim.retries == (1, 1)


def test_defect_13_counts_are_true_while_the_group_is_pending(simulate: Simulate) -> None:
    """Volcano: the status still says `running: 3` after a pod has failed."""
    sim = simulate(job(task("worker", 3))).run().set_group("Pending").fail("worker-0")
    assert sim.counts == {"running": 2, "failed": 1}


def test_defect_14_depends_on_waits_for_pods_of_this_run(simulate: Simulate) -> None:
    """Volcano: without `minAvailable` a task is ready at once, and pods of the run before count as ready."""
    tasks = task("ps", 2, min_available=None), task("worker", 1, depends_on=after("ps"))
    sim = simulate(job(*tasks, RESTART)).run("ps-0")
    assert set(sim.pods) == {"ps-0", "ps-1"}
    sim.run().run().fail("worker-0").let_go()
    assert set(sim.pods) == {"ps-0", "ps-1"}


def test_defect_14_an_unknown_task_does_no_harm() -> None:
    """Volcano: without the webhook, a name that no task has takes the whole controller down."""
    sim = Simulation(job(task("worker", 1, depends_on=after("nobody"))))
    assert sim.reason[0] == "InvalidJob"
    assert "nobody" in sim.reason[1]


def test_defect_15_nothing_is_recreated_just_before_the_end(simulate: Simulate) -> None:
    """Volcano: a second worker-0 is created and deleted 70 ms later, when the job is Failed."""
    sim = simulate(job(task("worker", 2), on("PodFailed", "RestartPod"), max_retry=1)).run()
    made = sum(isinstance(one, CreatePod) for one in sim.engine.done)
    assert sim.fail("worker-0").let_go().phase == "Failed"
    assert sum(isinstance(one, CreatePod) for one in sim.engine.done) == made


@pytest.mark.parametrize("action", ["RestartPod", "RestartTask", "RestartJob"])
def test_defect_16_the_last_failure_can_be_looked_at(simulate: Simulate, action: str) -> None:
    """Volcano: RestartPod and RestartTask leave no pod, no log and no exit code."""
    sim = simulate(job(task("worker", 2), on("PodFailed", action), max_retry=1)).run().fail("worker-0", 42).let_go()
    assert sim.pods == {"worker-0": "Failed"}
    assert "exit code 42" in sim.reason[1]


@pytest.mark.parametrize("cut", range(6))
def test_defect_17_no_claim_is_leaked(cut: int) -> None:
    """Volcano: a name by chance for each try; a failed update of the Job leaves a claim that nobody uses."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    sim = Simulation(job(task("worker", 1), volumes=[VolumeSpec(mount_path="/data", volume_claim=claim)]), up=False)
    with_a_crash(sim, cut, sim.up)
    assert len(sim.world.claims) == 1
    assert sim.counts == {"pending": 1}


def test_defect_17_a_claim_that_appears_is_noticed(simulate: Simulate) -> None:
    """Volcano: the appearance of a claim is not watched."""
    sim = simulate(job(task("worker", 1), volumes=[VolumeSpec(mount_path="/data", volume_claim_name="data")]))
    assert sim.pods == {}
    assert sim.add_claim("data").pods == {"worker-0": "Pending"}


@pytest.mark.parametrize("name", ["Service/train", "ConfigMap/train-svc", "Secret/train-ssh", "PodGroup/"])
def test_defect_18_what_others_remove_comes_back(simulate: Simulate, name: str) -> None:
    """Volcano: Service, Secret and PodGroup never come back, the ConfigMap at the next event of a pod."""
    sim = simulate(job(task("worker", 2), plugins=PLUGINS)).run()
    kind, _, called = name.partition("/")
    sim.lose(kind, called)
    assert sim.has_group()
    assert set(sim.owned_objects) == {"Service/train", "ConfigMap/train-svc", "Secret/train-ssh"}
    assert sim.phases == ["Pending", "Running"]


def test_defect_19_a_command_for_another_job_is_ignored() -> None:
    """Volcano: the uid is not looked at; the job of that name is aborted."""
    sim = Simulation(job(task("worker", 1))).run().command("AbortJob", uid="another")
    assert sim.phase == "Running"
    assert len(sim.messages("CommandIgnored")) == 1


@pytest.mark.parametrize("cut", range(4))
def test_defect_19_a_command_is_not_lost_with_the_controller(cut: int) -> None:
    """Volcano: the command is deleted before it is obeyed, so a crash in between loses it."""
    sim = Simulation(job(task("worker", 2))).run()
    with_a_crash(sim, cut, lambda: sim.command("AbortJob"))
    assert sim.phases == ["Pending", "Running", "Aborting", "Aborted"]
    assert sim.status.version == 1


def test_defect_24_the_hosts_follow_scaling_while_pending(simulate: Simulate) -> None:
    """Volcano: scaled while Pending, the ConfigMap lists the old hosts."""
    sim = simulate(job(task("worker", 2), plugins=PLUGINS)).scale(worker=3)
    assert sim.phase == "Pending"
    data = sim.owned_objects["ConfigMap/train-svc"]["data"]["worker.host"]
    assert data.split() == [f"train-worker-{index}.train" for index in range(3)]


def test_defect_31_claims_reach_init_containers_and_every_path() -> None:
    """Volcano: init containers are not mounted, the second path is lost, volumes are named by chance for each pod."""
    prepare = {"initContainers": [a_container("prepare")], "restartPolicy": "Never"}
    volumes = [VolumeSpec(mount_path=path, volume_claim_name="data") for path in ("/a", "/b")]
    wanted = job(task("worker", 2, template=a_template(a_container(), **prepare)), volumes=volumes)
    sim = Simulation(wanted, claims=("data",))
    specs = [stored.manifest["spec"] for stored in sim.world.pods_of(sim.key)]
    for spec in specs:
        for container in (*spec["initContainers"], *spec["containers"]):
            assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/a", "/b"]
    assert specs[0]["volumes"] == specs[1]["volumes"]


def test_defect_35_the_transition_time_moves_only_with_the_phase(simulate: Simulate) -> None:
    """Volcano: it moves with every count; the Running condition's time equals the Completed one's."""
    sim = simulate(job(task("worker", 2))).wait(3).run().wait(7).succeed("worker-0")
    assert sim.status.state.last_transition_time == "2000-01-01T00:00:03Z"
    sim.wait(5).succeed("worker-1")
    times = {condition.status: condition.last_transition_time for condition in sim.status.conditions}
    assert times == {
        "Pending": "2000-01-01T00:00:00Z",
        "Running": "2000-01-01T00:00:03Z",
        "Completed": "2000-01-01T00:00:15Z",
    }


def test_defect_35_the_running_duration_counts_the_running(simulate: Simulate) -> None:
    """Volcano: it counts from the creation of the job, and is dropped by the next sync."""
    sim = simulate(job(task("worker", 1))).wait(50).run().wait(12).succeed()
    assert sim.status.running_duration == "12s"
    assert sim.restart_controller().status.running_duration == "12s"


def test_defect_35_reason_and_message_say_why(simulate: Simulate) -> None:
    """Volcano: they are never written."""
    sim = simulate(job(task("worker", 1))).run().fail("worker-0", 137, "OOMKilled")
    assert sim.reason == (
        "OOMKilled",
        "worker-0 failed first: signal 9 (SIGKILL), OOMKilled in container main",
    )


def test_defect_35_pods_on_their_way_out_are_counted_once() -> None:
    """Volcano: a pod that is marked for removal is counted by its phase and as terminating."""
    sim = Simulation(job(task("worker", 3)), slow=True).run().scale(worker=1)
    assert sim.counts == {"running": 1, "terminating": 2}


def test_defect_36_an_end_is_reported_once_and_only_when_it_is_written(simulate: Simulate) -> None:
    """Volcano: its counters of finished jobs count before the write, and again after a conflict."""
    sim = simulate(job(task("worker", 1))).run()
    tries = itertools.count()
    # Not twice in a row: then the controller would wait a moment before it looks again.
    sim.engine.fail_call = lambda call: (
        CallFailure.CONFLICT if call == "write_status" and next(tries) in (0, 2) else None
    )
    sim.succeed()
    assert next(tries) >= 2
    assert sim.phase == "Completed"
    assert len(sim.messages("Completed")) == 1


@pytest.mark.parametrize("ends", [("a", 0, "b", 3), ("prepare", 3, "a", 0)])
def test_defect_37_every_container_is_asked_for_its_code(ends: tuple[str, int, str, int]) -> None:
    """Volcano: the code of the first listed container only; init containers are not looked at."""
    first, code, second, other = ends
    sim = Simulation(job(task("worker", 1), on("", "TerminateJob", exit_code=3))).run()
    sim.end_containers("worker-0", ContainerEnd(first, code), ContainerEnd(second, other))
    assert sim.phase == "Terminated"


def test_defect_37_an_update_of_the_job_is_an_event(simulate: Simulate) -> None:
    """Volcano: JobUpdated may be named in a policy and never fires."""
    sim = simulate(job(task("worker", 2), on("JobUpdated", "RestartJob"))).run()
    before = set(sim.uids.values())
    sim.scale(worker=3).let_go()
    assert sim.phases == ["Pending", "Running", "Restarting", "Pending"]
    assert not before & set(sim.uids.values())


def test_every_defect_of_the_life_cycle_has_its_test() -> None:
    names = [*globals(), *vars(test_volcano_defects_seen)]
    named = {int(name.split("_")[2]) for name in names if name.startswith("test_defect_")}
    assert named == {*range(1, 20), 24, 31, 35, 36, 37, *range(48, 56)}


def test_a_spec_that_is_written_again_unchanged_is_no_update() -> None:
    """Not a defect of Volcano's, but what makes JobUpdated bearable: only a change counts."""
    sim = Simulation(job(task("worker", 2), on("JobUpdated", "RestartJob"))).run()
    sim.update(msgspec.structs.replace(sim.job.spec))
    assert sim.retries == (0, 0)
