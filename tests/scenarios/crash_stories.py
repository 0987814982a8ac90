"""Stories that are told again and again: with the controller cut off after each of its calls, and with two of it.

Each is a job and what happens to it; after every step the controller is given the time that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from pumice.model.job import Manifest
from pumice.model.snapshot import Command, CommandTarget
from tests.scenarios.driver import Driver, a_job, policy, task

Step = Callable[[Driver], object]
SVC_SSH: Manifest = {"plugins": {"svc": [], "ssh": []}}
ONE_GIGABYTE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
CLAIM = {"mountPath": "/data", "volumeClaim": ONE_GIGABYTE}


@dataclass(frozen=True, slots=True)
class Story:
    name: str
    document: Manifest
    steps: tuple[Step, ...]
    ends: str  # the phase
    slow: bool = False

    def record(self, driver: Driver) -> Driver:
        driver.settle()
        for step in self.steps:
            step(driver)
            driver.settle()
        return driver


def run(driver: Driver) -> None:
    driver.run()


def succeed(driver: Driver) -> None:
    driver.succeed()


def let_go(driver: Driver) -> None:
    """All that is on its way out is gone."""
    for stored in driver.pods:
        if stored.seen.is_deleting:
            driver.gone(stored.seen.short_name)


def fail(name: str, code: int = 1) -> Step:
    return lambda driver: driver.end(name, code)


def end_well(*names: str) -> Step:
    return lambda driver: driver.succeed(*names)


def evict(name: str) -> Step:
    return lambda driver: driver.evict(name)


def order(action: str) -> Step:
    return lambda driver: driver.command(action)


def wait(seconds: float) -> Step:
    return lambda driver: driver.wait(seconds)


def scale(**replicas: int) -> Step:
    return lambda driver: driver.scale(**replicas)


def set_spec(**fields: object) -> Step:
    return lambda driver: driver.change_spec(**fields)


def group(phase: str) -> Step:
    return lambda driver: driver.group_is(phase)


def drop(kind: str, name: str) -> Step:
    def remove(driver: Driver) -> None:
        driver.world.objects[driver.key].pop((kind, name))
        driver.world.touch(driver.key)

    return remove


def drop_group(driver: Driver) -> None:
    del driver.world.groups[driver.key]
    driver.world.touch(driver.key)


def order_for_another(driver: Driver) -> None:
    target = CommandTarget(kind="Job", name="train", uid="of-an-earlier-one")
    driver.world.send(driver.key, Command(action="TerminateJob", target=target))


def restart_policy(action: str, event: str = "PodFailed", **fields: object) -> Manifest:
    return {"policies": [policy(action, event, **fields)], "maxRetry": 3, **SVC_SSH}


def several_commands(*actions: str) -> Step:
    """Several Commands before the controller sees any."""

    def send(driver: Driver) -> None:
        for action in actions:
            driver.command(action)

    return send


def break_spec(driver: Driver) -> None:
    driver.change_spec(min_available=7)


def mend_spec(driver: Driver) -> None:
    driver.change_spec(min_available=2)


def change_something(driver: Driver) -> None:
    """A change of the spec that moves no pod."""
    tasks = [msgspec.structs.replace(one, max_retry=5) for one in driver.job.spec.tasks]
    driver.change_spec(tasks=tasks)


THREE = task("worker", 3)
PARTS = task("worker", 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})

STORIES = (
    Story("healthy", a_job(task("master", 1), THREE, **SVC_SSH), (run, succeed), "Completed"),
    Story("claims", a_job(THREE, volumes=[CLAIM], **SVC_SSH), (run, succeed), "Completed"),
    Story(
        "restart the job",
        a_job(THREE, **restart_policy("RestartJob")),
        (run, fail("worker-1"), run, succeed),
        "Completed",
    ),
    Story(
        "restart the job, slowly",
        a_job(THREE, **restart_policy("RestartJob")),
        (run, fail("worker-1"), let_go, run, succeed),
        "Completed",
        slow=True,
    ),
    Story(
        "restart a pod twice",
        a_job(THREE, **restart_policy("RestartPod")),
        (run, fail("worker-1"), run, fail("worker-1"), run, succeed),
        "Completed",
    ),
    Story(
        "restart two pods, slowly",
        a_job(task("master", 1), THREE, **restart_policy("RestartPod", event="PodPending", timeout="1m")),
        (lambda d: d.run("master-0", "worker-0"), wait(61), let_go, run, succeed),
        "Completed",
        slow=True,
    ),
    Story(
        "restart a task",
        a_job(task("master", 1), task("worker", 2, policies=[policy("RestartTask")]), **SVC_SSH),
        (run, fail("worker-1"), let_go, run, succeed),
        "Completed",
        slow=True,
    ),
    Story(
        "restart a partition",
        a_job(PARTS, **restart_policy("RestartPartition")),
        (run, fail("worker-2"), run, succeed),
        "Completed",
    ),
    Story(
        "budget spent",
        a_job(THREE, **restart_policy("RestartJob")),
        (run, fail("worker-0"), run, fail("worker-1"), run, end_well("worker-0"), fail("worker-2")),
        "Failed",
    ),
    Story(
        "budget of a task spent",
        a_job(task("a", 2, maxRestarts=1, policies=[policy("RestartPod")]), maxRetry=9),
        (run, fail("a-0"), run, fail("a-0")),
        "Failed",
    ),
    Story(
        "abort and resume by Commands",
        a_job(THREE, **SVC_SSH),
        (run, end_well("worker-0"), order("AbortJob"), let_go, order("ResumeJob"), run, succeed),
        "Completed",
        slow=True,
    ),
    Story(
        "abort during a restart",
        a_job(THREE, **restart_policy("RestartJob")),
        (run, end_well("worker-2"), fail("worker-0"), order("AbortJob"), let_go, order("ResumeJob"), run, succeed),
        "Completed",
        slow=True,
    ),
    Story(
        "suspend and resume by the spec",
        a_job(THREE, **SVC_SSH),
        (run, set_spec(suspend=True), set_spec(suspend=False), run, succeed),
        "Completed",
    ),
    Story("made suspended", a_job(THREE, suspend=True), (set_spec(suspend=False), run, succeed), "Completed"),
    Story(
        "complete when the master is done",
        a_job(task("master", 1, policies=[policy("CompleteJob", "TaskCompleted")]), THREE, **SVC_SSH),
        (run, end_well("master-0"), let_go),
        "Completed",
        slow=True,
    ),
    Story(
        "terminate on a code",
        a_job(THREE, policies=[{"action": "TerminateJob", "exitCode": 7}], **SVC_SSH),
        (run, fail("worker-0", 7)),
        "Terminated",
    ),
    Story(
        "eviction",
        a_job(THREE, **restart_policy("RestartJob", event="PodEvicted")),
        (run, evict("worker-1"), run, succeed),
        "Completed",
    ),
    Story(
        "failed while being deleted",
        a_job(THREE, policies=[policy("RestartPod", "PodEvicted"), policy("TerminateJob")]),
        (run, evict("worker-1"), fail("worker-1", 143), let_go, run, succeed),
        "Completed",
        slow=True,
    ),
    Story(
        "eviction with a timeout",
        a_job(THREE, **restart_policy("AbortJob", event="PodEvicted", timeout="30s")),
        (run, evict("worker-1"), wait(31)),
        "Aborted",
    ),
    Story(
        "failure with a timeout",
        a_job(THREE, **restart_policy("RestartJob", timeout="30s")),
        (run, fail("worker-1"), wait(31), run, succeed),
        "Completed",
    ),
    Story(
        "dependsOn",
        a_job(task("a", 2), task("b", 2, dependsOn={"name": ["a"]}), **SVC_SSH),
        (run, run, succeed),
        "Completed",
    ),
    Story(
        "scale up and down",
        a_job(THREE, minAvailable=1, policies=[policy("AbortJob", "PodEvicted")], **SVC_SSH),
        (run, scale(worker=5), run, scale(worker=1), let_go, succeed),
        "Completed",
        slow=True,
    ),
    Story(
        "restart on update",
        a_job(THREE, policies=[policy("RestartJob", "JobUpdated")]),
        (run, change_something, run, succeed),
        "Completed",
    ),
    Story("ttl", a_job(THREE, ttlSecondsAfterFinished=60, **SVC_SSH), (run, succeed, wait(61)), ""),
    Story("deadline", a_job(THREE, activeDeadlineSeconds=60, **SVC_SSH), (run, wait(61), let_go), "Failed", slow=True),
    Story(
        "Commands one after the other",
        a_job(THREE, **SVC_SSH),
        (run, order_for_another, order("RestartJob"), several_commands("SyncJob", "TerminateJob")),
        "Terminated",
    ),
    Story(
        "companions put right",
        a_job(THREE, **SVC_SSH),
        (
            run,
            drop("Service", "train"),
            drop("ConfigMap", "train-svc"),
            drop("Secret", "train-ssh"),
            drop_group,
            succeed,
        ),
        "Completed",
    ),
    Story("invalid for a while", a_job(task()), (run, break_spec, mend_spec, succeed), "Completed"),
    Story("enough succeeded", a_job(THREE, minSuccess=1), (run, end_well("worker-1"), let_go), "Completed", slow=True),
    Story(
        "gang unknown",
        a_job(THREE, **restart_policy("RestartJob", event="Unknown")),
        (run, group("Unknown"), run, succeed),
        "Completed",
    ),
    Story(
        "a success is remembered",
        a_job(THREE, policies=[policy("RestartJob", "PodEvicted")]),
        (run, end_well("worker-1"), lambda d: d.gone("worker-1"), succeed),
        "Completed",
    ),
)
