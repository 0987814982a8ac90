"""What the controller costs: one pass over a large job, and the whole life of a job as it grows.

One pass is `observe` and `decide`, beside the least that any controller would do in the same run: one look at each of
as many dicts, and one JSON encode and decode of the status. Printed for a job at rest, for one of which every pod must
be made, and for one that restarts.

The whole life is played on the memory engine: pods are made, run and succeed, and the controller is told of each one
by a notification of its own. What comes while it is busy coalesces: pods come in as many waves at every size, as they
do when a pass takes longer for a larger job. Printed are the passes, the time for a pod, and its growth from one size
to the next, which stays near 1 if all of it is linear. The last lines show what coalescing is worth: a pass for each
pod, one after the other, makes the time for a pod grow with the job.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from pumice.admission.admit import admit_stored
from pumice.engines.memory.cluster_state import World
from pumice.engines.memory.engine import MemoryEngine
from pumice.engines.memory.timeline import VirtualClock
from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, JobKey, ObservedPod, PodPhase, Snapshot
from pumice.reconcile.decide import decide
from pumice.runtime.loop import Loop
from pumice.runtime.offline_context import offline_context
from scripts.measuring import best_of

LARGE = 10_000
SIZES = (100, 1_000, 10_000)
ONE_BY_ONE = (50, 500)
WAVES = 20  # in which the pods of a life start, and in which they end
ROUNDS = 3
CONTEXT = offline_context()
T = TypeVar("T")


def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end what never really waits: an event loop's own time is not what is measured."""
    try:
        work.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the memory engine waits for nobody")


def job_of(pods: int) -> Job:
    container = {"name": "worker", "image": "train:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    document = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "bench", "namespace": "lab"},
        "spec": {
            "plugins": {"env": [], "svc": []},
            "policies": [{"event": "PodFailed", "action": "RestartJob"}],
            "tasks": [{"name": "worker", "replicas": pods, "template": template}],
        },
    }
    return msgspec.convert(document, Job)


@dataclass(slots=True)
class Life:
    """A job on the memory engine, from its first pass to its last."""

    pods: int
    world: World
    engine: MemoryEngine
    loop: Loop
    key: JobKey
    waves: int

    @classmethod
    def of(cls, pods: int, waves: int = WAVES) -> Life:
        world = World(VirtualClock())
        engine = MemoryEngine(world)
        key = world.put_job(job_of(pods))
        return cls(pods, world, engine, Loop(engine, CONTEXT, world.clock), key, waves)

    def settle(self) -> None:
        busy = True
        while busy:
            for key in self.world.changed:
                self.loop.queue.add(key)
            self.world.changed.clear()
            busy = finish(self.loop.serve_next())

    def in_waves(self, act: Callable[[str], None]) -> None:
        names = [stored.seen.name for stored in self.world.pods_of(self.key)]
        size = -(-len(names) // self.waves)
        for first in range(0, len(names), size):
            for name in names[first : first + size]:
                act(name)
            self.settle()

    def run(self) -> None:
        self.settle()
        self.in_waves(lambda name: self.world.change_pod(self.key, name, phase=PodPhase.RUNNING, ready=True))
        end = ContainerEnd("worker", 0, finished_at=self.world.clock.now)
        self.in_waves(lambda name: self.world.end_pod(self.key, name, end))
        phase = self.world.jobs[self.key].status.state.phase
        if phase != "Completed":
            raise AssertionError(phase)


def running(pods: int, spoil: Callable[[ObservedPod], ObservedPod] | None = None) -> Life:
    """A job that runs; `spoil` changes its first pod."""
    life = Life.of(pods)
    life.settle()
    life.in_waves(lambda name: life.world.change_pod(life.key, name, phase=PodPhase.RUNNING, ready=True))
    if spoil is not None:
        first = life.world.pods_of(life.key)[0]
        first.seen = spoil(first.seen)
    return life


def failed(pod: ObservedPod) -> ObservedPod:
    return replace(pod, phase=PodPhase.FAILED, ends=(ContainerEnd("worker", 1, finished_at=pod.created_at),))


def measure_passes() -> None:
    admitted = admit_stored(job_of(LARGE), CONTEXT)

    def one_pass(life: Life) -> int:
        found: Snapshot | None = finish(life.engine.observe(life.key))
        if found is None:
            raise AssertionError
        job = msgspec.structs.replace(found.job, spec=admitted.job.spec)
        return len(decide(replace(found, job=job), admitted.plugins, life.world.clock.now).commands)

    steady = running(LARGE)
    restart = running(LARGE, failed)
    empty = Life.of(LARGE)
    empty.settle()
    empty.world.pods.clear()
    dicts = [{"phase": "Running", "version": 0, "index": index} for index in range(LARGE)]
    status = msgspec.to_builtins(steady.world.jobs[steady.key].status)

    def peer() -> None:
        if sum(each["phase"] == "Running" for each in dicts) != LARGE:
            raise AssertionError
        json.loads(json.dumps(status))

    limit = best_of(ROUNDS, peer)
    print(f"one pass over {LARGE:,} pods; the least that anybody does (peer): {1000 * limit:.2f} ms")
    print("  situation                    commands        ms    us/pod   times the peer")
    for name, life in (("at rest", steady), ("one failed: restart", restart), ("all pods to be made", empty)):
        took, commands = best_of(ROUNDS, lambda life=life: one_pass(life)), one_pass(life)  # type: ignore[misc]  # bound at once
        print(f"  {name:<26} {commands:>10} {1000 * took:>9.1f} {1e6 * took / LARGE:>9.2f} {took / limit:>16.1f}")


def measure_lives(sizes: tuple[int, ...], waves: int | None) -> None:
    before = 0.0
    for pods in sizes:
        lives: list[Life] = []

        def live(pods: int = pods, lives: list[Life] = lives) -> None:
            lives.append(Life.of(pods, waves or pods))
            lives[-1].run()

        each = best_of(ROUNDS if pods < LARGE else 1, live) / pods
        growth = f"{each / before:.2f}" if before else ""
        passes, calls = lives[-1].loop.passes, lives[-1].engine.calls
        print(f"{pods:>8} {passes:>8} {calls:>8} {each * pods:>9.2f} {1e6 * each:>9.1f}   {growth}")
        before = each


def main() -> int:
    measure_passes()
    columns = "    pods   passes    calls   seconds    us/pod   growth of the time for a pod"
    print(f"a whole life, pods in {WAVES} waves", columns, sep="\n")
    measure_lives(SIZES, WAVES)
    print("a whole life, a pass for each pod", columns, sep="\n")
    measure_lives(ONE_BY_ONE, None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
