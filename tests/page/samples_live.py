"""Views of jobs that have not ended: one that runs, one that waits, one with 1,000 pods."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
from msgspec import structs

from pumice.diagnosis.hang import Hang, PodActivity
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.verdict import plain_verdict
from pumice.store.history.run_history import PhaseSpan
from pumice.store.run_record import PublishedPort
from pumice.ui.detail_values import (
    FailureMark,
    JobView,
    Lifeline,
    LogFilter,
    Metric,
    Metrics,
    PodPage,
    PodRow,
    Segment,
    Series,
    StateCounts,
    Timeline,
)
from pumice.ui.values import Attempt, Hint, Holder, PodState, QueueEntry, Shortage, Waiting
from tests.page.samples import ACTIONS, FRAME, GIB, NOW, ROWS, as_job, before, task, wave
from tests.page.samples_failed import log_window, volume
from tests.page.samples_tabs import events, job_file, policies, rendered

RUNNING = ("master-0", *(f"worker-{i}" for i in range(5)))


def running(tab: str = "overview") -> JobView:
    """Return a job that runs without a failure."""
    job = as_job(
        ROWS[0],
        actions=ACTIONS,
        text="All 6 pods run. No restart, no error line.",
        events=9,
        deadline=before(-9400),
        deadline_line=7,
        attempts=(Attempt(number=1, outcome="running", start=before(7860)),),
    )
    lines = tuple(
        Lifeline(
            pod=pod,
            task=pod.rpartition("-")[0],
            index=0,
            state=PodState.RUNNING,
            segments=(Segment(kind="run", start=before(7855)),),
        )
        for pod in RUNNING
    )
    rows = tuple(
        PodRow(
            pod=pod,
            task=pod.rpartition("-")[0],
            index=max(0, rank - 1),
            attempt=1,
            state=PodState.RUNNING,
            rank=rank,
            address=f"10.77.2.{10 + rank}",
            cpu=1.1,
            cpu_limit=2,
            memory=int(9.8 * GIB),
            memory_limit=16 * GIB,
            gpu=97,
            cpu_points=wave(rank, 1.1, 0.1),
            memory_points=tuple(v * GIB for v in wave(rank, 9.7, 0.1)),
        )
        for rank, pod in enumerate(RUNNING)
    )
    timeline = Timeline(
        attempt=1,
        begin=before(7860),
        end=NOW,
        live=True,
        created=before(7868),
        phases=(PhaseSpan(phase="Running", start=before(7858)),),
        total=6,
        pods=lines,
    )
    texts = tuple(
        (
            7700 + i * 3.5,
            "master-0" if i % 7 else "worker-3",
            "stdout",
            f"step {4260 + 2 * i}/6000  loss {1.86 - i * 0.001:.4f}  lr 1.6e-05  2.11 s/step"
            if i % 7
            else "checkpoint shard 4/6 written in 1.1s",
        )
        for i in range(44)
    )
    return JobView(
        frame=FRAME,
        job=job,
        tab=tab,
        attempt=1,
        chosen=LogFilter(attempt=1),
        timeline=timeline,
        pods=PodPage(attempt=1, items=rows, total=6, counts={PodState.RUNNING: 6}),
        logs=log_window(texts, live=True),
        volume=volume(),
        metrics=running_metrics(),
        rendered=rendered(),
        events=events(),
        policies=policies(),
        file=job_file(),
    )


def running_metrics() -> Metrics:
    series = tuple(Series(pod=pod, points=wave(i, 1.1, 0.1, 80)) for i, pod in enumerate(RUNNING))
    memory = tuple(
        Series(pod=pod, points=tuple(v * GIB for v in wave(i, 9.7, 0.1, 80))) for i, pod in enumerate(RUNNING)
    )
    return Metrics(
        attempt=1,
        pod="",
        begin=before(800),
        step=10,
        metrics=(
            Metric(name="cpu", unit="cores", limit=2, series=series),
            Metric(name="memory", unit="bytes", limit=16 * GIB, series=memory),
        ),
    )


def hanging() -> JobView:
    """Return a job in which no pod prints anything, and which publishes a port."""
    view = running()
    doing = (
        PodActivity("master-0", "python3 sleeping in all_reduce (distributed.py:4181), called by <module> (t.py:9)"),
        PodActivity("worker-0", "python3 sleeping in futex_do_wait; connected to master-0:23456", lacks_py_spy=True),
        PodActivity("worker-1", "python3 sleeping in futex_do_wait; connected to master-0:23456", lacks_py_spy=True),
    )
    job = structs.replace(
        view.job,
        uid="u-hang",
        verdict=None,
        text="6 of 6 running",
        hang=Hang(since=before(80), silent=60, running=6, doing=doing),
        published=(PublishedPort(pod="master-0", port=6006, address="127.0.0.1:45519"),),
    )
    return replace(view, job=job)


def waiting() -> JobView:
    """Return a job that waits for GPUs."""
    until = before(-9400)
    holder = Holder(
        job="llama-ft:3",
        uid="u-run",
        amount="GPU 0 to 5",
        until=until,
        because="activeDeadlineSeconds",
        outcome=Outcome.RUNNING,
        phase="Running",
    )
    why = Waiting(
        code="Resources",
        text="1st in queue train: needs 8 GPUs, 2 free; 6 held by llama-ft:3 until ~14:20. Likely start ~14:20.",
        since=before(1860),
        position=1,
        pods=8,
        short=(
            Shortage(resource="GPU", wanted="8", free="2", capacity="8", short="6", held_by=(holder,)),
            Shortage(resource="CPU", wanted="16.0", free="21.0", capacity="64"),
            Shortage(resource="memory", wanted="64 GiB", free="69 GiB", capacity="256 GiB"),
        ),
        hints=(Hint(text="2 GPUs: the master and one worker", command="pumice scale qwen-sft:1 worker=1"),),
        queue=(
            QueueEntry(
                position=None,
                job="llama-ft:3",
                uid="u-run",
                outcome=Outcome.RUNNING,
                phase="Running",
                needs="6 GPUs",
                until=until,
            ),
            QueueEntry(
                position=1,
                job="qwen-sft:1",
                uid="u-wait",
                outcome=Outcome.WAITING,
                phase="Pending",
                needs="8 GPUs",
                is_this=True,
            ),
            QueueEntry(
                position=2,
                job="eval-mmlu:1",
                uid="u-eval",
                outcome=Outcome.WAITING,
                phase="Pending",
                needs="96 GiB memory",
            ),
        ),
    )
    job = as_job(ROWS[4], actions=ACTIONS, waiting=why, events=2, min_available=8, min_available_line=6)
    return JobView(frame=FRAME, job=job, rendered=rendered(), events=events(), policies=policies(), file=job_file())


def many(total: int = 1000) -> JobView:
    """Return a job with so many pods that they are counted."""
    lots = random.Random(7)
    rows = []
    for i in range(total):
        state = (
            PodState.FIRST
            if i == 417
            else PodState.FAILED
            if i in {23, 790}
            else PodState.WAITING
            if i >= total - 4
            else PodState.DONE
            if lots.random() < max(0.0, 0.9 - i / 600)
            else PodState.RUNNING
        )
        rows.append(
            PodRow(
                pod=f"trial-{i}",
                task="trial",
                index=i,
                attempt=1,
                state=state,
                rank=None,
                address=f"10.78.{i // 250}.{i % 250}",
                cpu=lots.random(),
                cpu_limit=1,
                memory=int(lots.random() * 2 * GIB),
                memory_limit=2 * GIB,
            )
        )
    counts = {state: sum(each.state is state for each in rows) for state in PodState}
    job = as_job(
        ROWS[1],
        actions=ACTIONS,
        events=3020,
        min_success=950,
        min_success_line=8,
        attempts=(Attempt(number=1, outcome="running", start=before(2860), first="trial-417"),),
        verdict=msgspec.structs.replace(plain_verdict("", ""), pod="trial-417", code=1),
    )
    buckets = tuple(
        StateCounts(
            time=before(2860 - 2860 * i / 119),
            waiting=int(1000 * 0.97 ** (i * 2)) + 4,
            done=int(352 * (i / 119) ** 2),
            running=1000 - int(1000 * 0.97 ** (i * 2)) - 7 - int(352 * (i / 119) ** 2),
            failed=3,
        )
        for i in range(120)
    )
    marks = tuple(
        FailureMark(time=before(when), pod=f"trial-{i}", attempt=1, exit="exit code 1", first=i == 417)
        for i, when in ((417, 1880), (23, 1000), (790, 430))
    )
    odd = []
    for i, (begin, end, note) in {
        417: (2800, 1880, "exit 1: val_loss is nan"),
        23: (2830, 1000, "exit 1: val_loss is nan"),
        790: (2330, 430, "exit 137, OOMKilled"),
        2: (2830, None, "epoch 12/40, 3.1 times the median"),
        611: (2650, None, "no line for 6 m 12 s"),
        998: (2860, None, "waits: 1 CPU, 0 free"),
    }.items():
        state = (
            PodState.FIRST
            if i == 417
            else PodState.FAILED
            if end
            else PodState.WAITING
            if i == 998
            else PodState.RUNNING
        )
        segment = Segment(
            kind="wait" if i == 998 else "run",
            start=before(begin),
            end=before(end) if end else None,
            state=state,
            exit="exit code 1" if end else "",
        )
        odd.append(Lifeline(pod=f"trial-{i}", task="trial", index=i, state=state, segments=(segment,), note=note))
    timeline = Timeline(
        attempt=1,
        begin=before(2860),
        end=NOW,
        live=True,
        created=before(2861),
        phases=(PhaseSpan(phase="Running", start=before(2850)),),
        total=total,
        pods=tuple(odd),
        buckets=buckets,
        failures=marks,
    )
    texts = tuple(
        (
            2810 + i / 10,
            f"trial-{lots.randrange(total)}",
            "stdout",
            f"epoch {20 + i % 18}/40  val_acc 0.{8800 + lots.randrange(400)}  best 0.{9000 + lots.randrange(200)}",
        )
        for i in range(60)
    )
    band = Metric(
        name="cpu",
        unit="cores",
        limit=1,
        median=wave(1, 0.7, 0.03, 80),
        low=wave(1, 0.6, 0.03, 80),
        high=wave(1, 0.8, 0.03, 80),
    )
    memory = Metric(
        name="memory",
        unit="bytes",
        limit=2 * GIB,
        median=tuple(v * GIB for v in wave(2, 1.0, 0.03, 80)),
        low=tuple(v * GIB for v in wave(2, 0.85, 0.03, 80)),
        high=tuple(v * GIB for v in wave(2, 1.15, 0.03, 80)),
        series=(
            Series(pod="trial-790", points=tuple(GIB * (0.8 + 1.2 * i / 66) if i < 66 else None for i in range(80))),
        ),
    )
    return JobView(
        frame=FRAME,
        job=job,
        attempt=1,
        chosen=LogFilter(attempt=1),
        timeline=timeline,
        pods=PodPage(attempt=1, items=tuple(rows), total=total, counts={k: v for k, v in counts.items() if v}),
        logs=log_window(texts, live=True),
        volume=volume(),
        metrics=Metrics(attempt=1, pod="", begin=before(2860), step=35, metrics=(band, memory)),
        rendered=rendered(),
        events=events(),
        policies=policies(),
        file=job_file(),
    )


def with_every_line(view: JobView) -> JobView:
    """Return a job with a lifeline for each of its many pods."""
    assert view.timeline is not None
    assert view.pods is not None
    odd = {line.pod: line for line in view.timeline.pods}
    lines = tuple(
        odd.get(row.pod)
        or Lifeline(
            pod=row.pod,
            task=row.task,
            index=row.index,
            state=row.state,
            segments=(Segment(kind="run", start=before(2860 - row.index), state=row.state),),
        )
        for row in view.pods.items
    )
    return replace(view, timeline=structs.replace(view.timeline, pods=lines, every=True))


def seven_tasks() -> JobView:
    """Return a job with more tasks than there are colours; its first two print the same."""
    base = running()
    names = tuple(f"task{i}" for i in range(7))
    texts = tuple((i, f"{name}-0", "stdout", f"line {max(1, i)}") for i, name in enumerate(names))
    job = structs.replace(base.job, uid="u-tasks", tasks=tuple(task(name, PodState.RUNNING) for name in names))
    return replace(base, job=job, logs=log_window((*texts, (8, "", "phase", "Running"))))


def hostile() -> JobView:
    """Return a job whose names and lines try to be more than text."""
    base = running()
    name = '"><script>window.hacked=1</script>\u202egpj.exe'
    job = structs.replace(
        base.job,
        uid="u-hostile",
        run=f"{name}:1",
        name=name,
        file=f"/tmp/{name}.yaml",
        queue=name,
        plugins=(name,),
        tasks=(task(name, PodState.RUNNING),),
        text=f"{name} runs",
    )
    texts = (
        (0.1, "worker-0", "stdout", '<script>document.location="//evil"</script><img src=x onerror=window.hacked=2>'),
        (
            0.1,
            "worker-0",
            "stdout",
            "\x1b[31mred\x1b[0m plain \x1b[1;94mbold blue\x1b[m \x1b]8;;//evil\x07link \u202egpj.exe",
        ),
        (0.2, f"{name}-0", "stderr", "a" * 3000 + "\x00\x08\x7f\x9b"),
    )
    logs = log_window(texts, live=True)
    *others, longest = logs.items
    logs = structs.replace(logs, items=(*others, structs.replace(longest, cut=9012)))
    row = base.pods.items[0] if base.pods else None
    pods = PodPage(attempt=1, items=(structs.replace(row, pod=f"{name}-0", task=name),) if row else (), total=1)
    return replace(base, job=job, logs=logs, pods=pods)
