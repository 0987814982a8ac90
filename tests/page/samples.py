"""Views with made-up values: the jobs that the pictures of the page show, one for each kind of view."""

from __future__ import annotations

import datetime as dt
import math
import random
from typing import Any

from pumice.diagnosis.outcome import Outcome
from pumice.ui.detail_values import (
    ActionPlan,
    Frame,
)
from pumice.ui.values import (
    GROUPS,
    Action,
    Attempt,
    Group,
    Info,
    Job,
    JobRow,
    LastLine,
    Listing,
    PodState,
    Reservation,
    Resources,
    TaskPods,
    Waiting,
)

GIB = 1024**3
NOW = dt.datetime(2026, 9, 18, 11, 42, 10, tzinfo=dt.UTC)
BEGAN = dt.datetime(2026, 9, 18, 9, 4, 52, tzinfo=dt.UTC)
HOSTILE = "<img src=x onerror=alert(1)>"
HOSTILE_LINE = '<script>fetch("//evil")</script> \x1b[31mred\x1b[0m \x1b]8;;x \u202etxt.exe'
S = PodState


def after(seconds: float) -> dt.datetime:
    return BEGAN + dt.timedelta(seconds=seconds)


def before(seconds: float) -> dt.datetime:
    return NOW - dt.timedelta(seconds=seconds)


INFO = Info(
    scope="this machine",
    host="box",
    version="0.1",
    now=NOW,
    capacity=Resources(cpu=64, memory=256 * GIB, gpus=tuple("01234567")),
    reserved=(
        Reservation(job="llama-ft:3", uid="u-run", resources=Resources(cpu=12, memory=96 * GIB, gpus=tuple("012345"))),
        Reservation(job="sweep-1000:1", uid="u-many", resources=Resources(cpu=22, memory=41 * GIB)),
        Reservation(job="ray-rllib:2", uid="u-3", resources=Resources(cpu=5, memory=18 * GIB)),
        Reservation(job="gpt2-elastic:1", uid="u-4", resources=Resources(cpu=4, memory=32 * GIB)),
    ),
)
FRAME = Frame(info=INFO, token="t" * 32)


def task(name: str, *states: PodState) -> TaskPods:
    counts = {state: states.count(state) for state in dict.fromkeys(states)}
    return TaskPods(name=name, total=len(states), counts=counts, states=states)


def attempts(*outcomes: str) -> tuple[Attempt, ...]:
    return tuple(Attempt(number=i, outcome=each, start=BEGAN) for i, each in enumerate(outcomes, 1))


OUTCOMES = {
    Group.ACTIVE: Outcome.RUNNING,
    Group.WAITING: Outcome.WAITING,
    Group.SUSPENDED: Outcome.SUSPENDED,
    Group.FAILED: Outcome.FAILED,
    Group.STOPPED: Outcome.STOPPED,
    Group.DONE: Outcome.SUCCEEDED,
}


def row(name: str, phase: str, group: Group, made: float, ran: float | None, **more: Any) -> JobRow:
    """Return a row of the list; `made` and `ran` are seconds."""
    values: dict[str, Any] = {
        "uid": f"u-{name.partition(':')[0]}",
        "run": name,
        "name": name.partition(":")[0],
        "number": 1,
        "namespace": "default",
        "file": f"{name.partition(':')[0]}.yaml",
        "outcome": next((each for each in Outcome if GROUPS[each] is group and each == phase), OUTCOMES[group]),
        "phase": phase,
        "group": group,
        "since": before(made),
        "created": before(made),
        "started": before(ran) if ran and group is Group.ACTIVE else None,
        "ran": ran,
        "queue": "default",
        "plugins": ("pytorch", "svc"),
        "attempts": attempts("running" if group is Group.ACTIVE else "completed"),
    }
    return JobRow(**{**values, **more})


def line(pod: str, text: str) -> LastLine:
    return LastLine(pod=pod, task=pod.rpartition("-")[0], text=text)


W, R, D, F, X, Q = S.RUNNING, S.RUNNING, S.DONE, S.FIRST, S.FOLLOWED, S.WAITING
MANY = TaskPods(name="trial", total=1000, counts={S.DONE: 352, S.RUNNING: 641, S.WAITING: 4, S.FAILED: 3})
ROWS = (
    row(
        "llama-ft:3",
        "Running",
        Group.ACTIVE,
        7868,
        7860,
        uid="u-run",
        queue="train",
        tasks=(task("master", R), task("worker", *[R] * 5)),
        text="Ends by ~14:20 (activeDeadlineSeconds, line 7)",
        note="lr 1.6e-5, warmup 200: the baseline",
        last_line=line("master-0", "step 4310/6000  loss 1.8423  lr 1.6e-05  2.11 s/step  grad 0.71"),
    ),
    row(
        "sweep-1000:1",
        "Running",
        Group.ACTIVE,
        2880,
        2860,
        uid="u-many",
        plugins=("env",),
        tasks=(MANY,),
        failed=3,
        text="trial-417 failed first (exit 1), 2 more since; minSuccess 950 can still be reached",
        last_line=line("trial-988", "epoch 31/40  val_acc 0.9127  best 0.9164 (epoch 28)"),
    ),
    row(
        "gpt2-elastic:1",
        "Restarting",
        Group.ACTIVE,
        540,
        531,
        tasks=(task("master", R), task("worker", R, R, S.FAILED, R)),
        attempts=attempts("failed", "running"),
        text="worker-2 failed first (137, OOMKilled); its task restarts: exitCode 137 → RestartTask (line 31)",
        last_line=line("worker-2", "Killed: memory 8.0 GiB of 8.0 GiB"),
    ),
    row(
        "mpi-bench:1",
        "Completing",
        Group.ACTIVE,
        240,
        224,
        plugins=("mpi", "ssh", "svc"),
        tasks=(task("launcher", D), task("slot", *[R] * 6, *[D] * 26)),
        text="launcher-0 succeeded: TaskCompleted → CompleteJob (line 24)",
        last_line=line("launcher-0", "allreduce 1 GiB algbw 11.82 GB/s busbw 22.91 GB/s"),
    ),
    row(
        "qwen-sft:1",
        "Pending",
        Group.WAITING,
        1860,
        None,
        uid="u-wait",
        queue="train",
        attempts=(),
        tasks=(task("master", Q), task("worker", *[Q] * 7)),
        waiting=Waiting(
            code="Resources",
            position=1,
            pods=8,
            text="1st in queue train: needs 8 GPUs, 2 free; 6 held by llama-ft:3 until ~14:20",
        ),
    ),
    row(
        "distributed-tensorflow-parameter-server-recommender-nightly-eu-1:12",
        "Pending",
        Group.WAITING,
        130,
        None,
        attempts=(),
        plugins=("tensorflow", "svc"),
        tasks=(task("ps", Q, Q), task("worker", *[Q] * 8), task("evaluator", Q)),
        waiting=Waiting(
            code="Image", text="Image train/recommender:9.1 is not on this machine (line 27): pumice image adds one"
        ),
    ),
    row(
        "dlrm-nightly:4",
        "Aborted",
        Group.SUSPENDED,
        10800,
        10080,
        plugins=("tensorflow", "svc"),
        tasks=(task("ps", *[S.STOPPED] * 2), task("worker", *[S.STOPPED] * 4)),
        text="Suspended 41 min ago from this page; claims, Service and finished pods are kept for a resume",
        last_line=line("worker-1", "checkpoint 41 written (2.1 GiB)"),
    ),
    row(
        "pytorch-job:7",
        "Completed",
        Group.DONE,
        2040,
        5.5,
        tasks=(task("master", D), task("worker", D, D)),
        text="3 succeeded",
        last_line=line("master-0", "ring closed: 42.0"),
    ),
    row(
        HOSTILE,
        "Failed",
        Group.FAILED,
        3480,
        0.0,
        uid="u-hostile",
        plugins=(),
        queue="",
        attempts=(),
        tasks=(task("task", Q),),
        text='metadata.name: must be lower-case letters, digits and "-", at most 63 (line 4)',
        last_line=line("", HOSTILE_LINE),
    ),
    row(
        "bert-pretrain:2",
        "Failed",
        Group.FAILED,
        9800,
        833,
        uid="u-fail",
        queue="train",
        tasks=(task("master", X), task("worker", X, X, X, F, X, X, X)),
        attempts=attempts("failed", "failed", "failed"),
        text="worker-3 failed first (exit 1, CUDA out of memory); the other 7 lost their connection to it",
        last_line=line("worker-3", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"),
    ),
    row(
        "ray-tune-cifar:1",
        "Terminated",
        Group.STOPPED,
        18000,
        3720,
        plugins=("ray", "svc"),
        tasks=(task("head", S.STOPPED), task("worker", *[S.STOPPED] * 8)),
        text="Stopped from a terminal 4 h ago: TerminateJob",
        last_line=line("head-0", "trial 14/40  loss 0.4418"),
    ),
    row(
        "horovod-allreduce:1",
        "Completed",
        Group.DONE,
        73000,
        1089,
        plugins=("mpi", "ssh"),
        tasks=(task("launcher", D), task("worker", *[D] * 4)),
        attempts=attempts("failed", "completed"),
        text="5 succeeded, in the 2nd attempt",
        last_line=line("launcher-0", "done: 1000 batches, 412.7 img/s per worker"),
    ),
)


def jobs(rows: tuple[JobRow, ...] = ROWS) -> tuple[Frame, Listing]:
    """Return the list."""
    counts = {group: sum(each.group is group for each in rows) for group in Group}
    counts[Group.ALL] = len(rows)
    return FRAME, Listing(items=rows, counts=counts, total=len(rows))


def empty() -> tuple[Frame, Listing]:
    """Return the list without a job."""
    idle = Info(scope="this machine", host="box", version="0.1", now=NOW, capacity=INFO.capacity)
    return Frame(info=idle, token="t" * 32), Listing(items=(), counts={}, total=0)


ACTIONS = (
    Action(name="suspend", label="Suspend", allowed=True),
    Action(name="restart", label="Restart", allowed=True),
    Action(name="stop", label="Stop", allowed=True),
    Action(name="delete", label="Delete", allowed=True),
)
ENDED = (
    Action(name="suspend", label="Suspend", allowed=False, why_not="Failed is final"),
    Action(name="again", label="Run again", allowed=True),
    Action(name="stop", label="Stop", allowed=False, why_not="Failed is final"),
    Action(name="delete", label="Delete", allowed=True),
)
STOP = ActionPlan(
    name="stop",
    title="Stop llama-ft:3 for good?",
    button="Stop 6 pods",
    allowed=True,
    danger=True,
    now="6 pods get SIGTERM, and SIGKILL after 30 s",
    phases=("Running", "Terminating", "Terminated"),
    remark="Final: it cannot be resumed. To go on later, suspend it instead.",
    frees="6 GPUs, 12 CPUs, 96 GiB",
    kept="all that was recorded, until you delete the job",
    command="pumice stop llama-ft:3",
)


def as_job(base: JobRow, **more: Any) -> Job:
    values = {name: getattr(base, name) for name in base.__struct_fields__}
    return Job(**{**values, **more})


def wave(seed: int, base: float, size: float, count: int = 40) -> tuple[float, ...]:
    lots = random.Random(seed)
    return tuple(max(0.0, base + size * math.sin(i / 3 + seed) + size * lots.uniform(-1, 1)) for i in range(count))
