"""Views of a job whose three attempts failed in the same way."""

from __future__ import annotations

from msgspec.structs import replace

from pumice.diagnosis.verdict import ActedPolicy, FailedPod, plain_verdict
from pumice.store.history.run_history import PhaseSpan
from pumice.ui.detail_values import (
    FailureMark,
    JobView,
    Lifeline,
    LogFilter,
    LogLine,
    LogWindow,
    Metric,
    Metrics,
    PodPage,
    PodRow,
    Segment,
    Series,
    Timeline,
    Volume,
    VolumeBucket,
)
from pumice.ui.values import (
    Attempt,
    PodState,
    RetryBudget,
)
from tests.page.samples import BEGAN, ENDED, FRAME, GIB, ROWS, S, after, as_job, wave
from tests.page.samples_tabs import DELAYS, LENGTHS, STARTS, events, job_file, policies, rendered

# --- a failed job -------------------------------------------------------------------------------------------------


OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
    "GPU 0 has 23.65 GiB in total, 1.12 GiB is free"
)


def _failed_lines() -> tuple[Lifeline, ...]:
    lines = []
    for pod, delay in DELAYS.items():
        segments: list[Segment] = []
        for number, (start, length) in enumerate(zip(STARTS, LENGTHS, strict=True), 1):
            state = S.FIRST if delay == 0 else S.FOLLOWED
            begin = after(start + 1.8)
            segments.append(Segment(kind="init", start=after(start), end=begin, attempt=number))
            if pod == "worker-5" and number == 2:
                middle = after(start + 85)
                segments.append(
                    Segment(
                        kind="run",
                        start=begin,
                        end=middle,
                        attempt=2,
                        exit="exit code 42",
                        exit_code=42,
                        state=S.RESTARTING,
                    )
                )
                begin = middle
            segments.append(
                Segment(
                    kind="run",
                    start=begin,
                    end=after(start + length + delay),
                    attempt=number,
                    exit="exit code 1",
                    exit_code=1,
                    state=state,
                )
            )
        task_name, _, index = pod.rpartition("-")
        lines.append(
            Lifeline(
                pod=pod,
                task=task_name,
                index=int(index),
                state=segments[-1].state,
                segments=tuple(segments),
                delay=delay,
            )
        )
    return tuple(lines)


def pod_row(pod: str, rank: int, state: PodState, seed: int) -> PodRow:
    cpu, memory = wave(seed, 3.7, 0.35), tuple(value * GIB for value in wave(seed + 50, 11.6, 0.3))
    return PodRow(
        pod=pod,
        task=pod.rpartition("-")[0],
        index=int(pod.rpartition("-")[2]),
        attempt=3,
        state=state,
        rank=rank,
        address=f"10.77.0.{10 + rank}",
        cpu=cpu[-1],
        cpu_limit=6,
        memory=int(memory[-1]),
        memory_limit=24 * GIB,
        gpu=94 + seed % 5,
        cpu_points=cpu,
        memory_points=memory,
    )


def _metric(name: str, unit: str, limit: float, base: float, scale: float = 1.0) -> Metric:
    series = []
    for seed, pod in enumerate(DELAYS):
        points = [value * scale for value in wave(seed, base, base * 0.06, 80)]
        if name == "gpuMemory" and pod == "worker-3":
            points = [value * (1 + 0.31 * (i / 79) ** 2) for i, value in enumerate(points)]
            points[-1] = 23.6 * GIB
        series.append(Series(pod=pod, points=tuple(min(limit, value) for value in points)))
    return Metric(name=name, unit=unit, limit=limit, series=tuple(series))


def metrics() -> Metrics:
    return Metrics(
        attempt=3,
        pod="worker-3",
        begin=after(580),
        step=3.15,
        metrics=(
            _metric("cpu", "cores", 6, 3.7),
            _metric("memory", "bytes", 24 * GIB, 11.6, GIB),
            _metric("gpu", "percent", 100, 94),
            _metric("gpuMemory", "bytes", 23.65 * GIB, 18, GIB),
        ),
    )


LOG_TEXTS = (
    *((2.0, f"worker-{i}", "stdout", "wait-for-master  master answered after 1s") for i in (5, 0, 1, 2, 3, 4, 6)),
    (2.2, "", "phase", "Running     8/8"),
    (4.8, "master-0", "stdout", "model bert-base: 110.1 M parameters, bf16, micro-batch 48, world size 8"),
    (5.0, "worker-2", "stderr", "warning: tokenizer cache is read-only, kept in memory instead"),
    (9.6, "master-0", "stdout", "data: 3,932,160 sequences in 480 shards, 60 a rank"),
    (11.2, "worker-1", "stdout", "loading shard 60/60 ████████████████████ 100%"),
    *(
        (
            33.6 + 25.6 * i,
            "master-0",
            "stdout",
            f"step  {50 * (i + 1):>4}/12000  loss {10.2 - i * 0.3:.4f}  lr 5.0e-06  0.51 s/step  75{i} seq/s",
        )
        for i in range(9)
    ),
    (252.30, "worker-3", "stderr", "Traceback (most recent call last):"),
    (252.31, "worker-3", "stderr", '  File "/app/bert/train.py", line 214, in main'),
    (252.32, "worker-3", "stderr", "    loss = step(model, batch)"),
    (252.33, "worker-3", "stderr", '  File "/app/bert/step.py", line 58, in step'),
    (252.34, "worker-3", "stderr", "    out = model(**batch)"),
    *(
        (252.35, "worker-3", "stderr", text)
        for line in range(1736, 1748)
        for text in (
            f'  File "/lib/torch/nn/modules/module.py", line {line}, in _call_impl',
            "    return forward_call()",
        )
    ),
    (
        252.40,
        "worker-3",
        "first",
        OUT_OF_MEMORY,
    ),
    (252.41, "", "pod", "worker-3 failed (exit code 1): the first failure of this attempt"),
    (252.7, "master-0", "stderr", "[rank0] connection closed by peer [10.77.0.14]:43211"),
    (252.8, "worker-2", "stderr", "[rank3] connection closed by peer [10.77.0.14]:43211"),
    (252.9, "", "policy", "Restarting  PodFailed → RestartJob (spec.policies[1], bert-pretrain.yaml:12)"),
    (253.3, "", "phase", "Failed      no retry left (4 of 4 spent)"),
)


def log_window(texts: tuple[tuple[float, str, str, str], ...] = LOG_TEXTS, *, live: bool = False) -> LogWindow:
    items = []
    first = None
    for number, (time, pod, stream, text) in enumerate(texts):
        kind = "line" if pod else stream
        first = number if stream == "first" else first
        items.append(
            LogLine(
                number=number,
                seq=number,
                time=after(580 + time),
                pod=pod,
                task=pod.rpartition("-")[0],
                container="main",
                stream="stderr" if stream in {"first", "stderr"} else "stdout",
                text=text,
                attempt=3,
                error=stream == "first" or "Traceback" in text,
                kind=kind,
                redraws=212 if text.startswith("loading") else 0,
            )
        )
    return LogWindow(
        filter=LogFilter(attempt=3),
        total=len(items),
        errors=2,
        at=0,
        items=tuple(items),
        begin=after(580),
        first_error=first,
        live=live,
        others={} if live else {1: 1187, 2: 1204},
    )


def volume(first: int | None = 20) -> Volume:
    buckets = tuple(
        VolumeBucket(time=after(580 + i * 2.1), first=i // 5, lines=int(3 + abs(wave(3, 4, 4, 120)[i])), errors=0)
        for i in range(120)
    )
    return Volume(begin=after(580), end=after(833), total=1311, errors=2, buckets=buckets)


FAILED_ATTEMPTS = tuple(
    Attempt(
        number=i,
        outcome="failed",
        start=after(start),
        end=after(start + length),
        first="worker-3",
        exit="exit code 1",
        exit_code=1,
        then=then,
    )
    for i, (start, length, then) in enumerate(
        zip(
            STARTS,
            LENGTHS,
            ("RestartJob", "RestartJob; before it worker-5 (exit 42): RestartPod", "no retry left"),
            strict=True,
        ),
        1,
    )
)
FAILED_JOB = as_job(
    ROWS[9],
    created=after(-400),
    started=BEGAN,
    finished=after(833),
    ran=833.0,
    waited=400.0,
    attempts=FAILED_ATTEMPTS,
    attempt=3,
    max_attempts=4,
    budget=RetryBudget(spent=4, limit=4, line=7),
    actions=ENDED,
    events=17,
    fired=2,
    before="worker-3 failed first in all 3 attempts, with the same last line",
    verdict=replace(
        plain_verdict("PodFailed", "", 3),
        pod="worker-3",
        code=1,
        line=OUT_OF_MEMORY,
        age=252.0,
        followers=tuple(
            FailedPod(pod=pod, code=1, signal=None, reason="", after=delay) for pod, delay in DELAYS.items() if delay
        ),
        policy=ActedPolicy(
            event="PodFailed", action="RestartJob", path="spec.policies[1]", where="bert-pretrain.yaml:12", line=12
        ),
        next="pumice run bert-pretrain.yaml --keep",
    ),
)


def _phases() -> tuple[PhaseSpan, ...]:
    spans = [PhaseSpan(phase="Pending", start=after(-400), end=BEGAN)]
    for number, (start, length) in enumerate(zip(STARTS, LENGTHS, strict=True), 1):
        spans.append(PhaseSpan(phase="Running", start=after(start + 2), end=after(start + length), attempt=number))
        if number < 3:
            spans.append(
                PhaseSpan(
                    phase="Restarting", start=after(start + length), end=after(start + length + 5), attempt=number
                )
            )
            spans.append(
                PhaseSpan(
                    phase="Pending", start=after(start + length + 5), end=after(start + length + 10), attempt=number + 1
                )
            )
    return (*spans, PhaseSpan(phase="Failed", start=after(832.4), attempt=3))


def failed(tab: str = "overview") -> JobView:
    """Return a job whose third attempt failed like the others."""
    pods = tuple(
        pod_row(pod, rank, S.FIRST if pod == "worker-3" else S.FOLLOWED, rank) for rank, pod in enumerate(DELAYS)
    )
    marks = tuple(
        FailureMark(time=after(start + length), pod="worker-3", attempt=i, exit="exit code 1", first=True)
        for i, (start, length) in enumerate(zip(STARTS, LENGTHS, strict=True), 1)
    )
    timeline = Timeline(
        attempt=0,
        begin=BEGAN,
        end=after(833.4),
        live=False,
        created=after(-400),
        phases=_phases(),
        total=8,
        pods=_failed_lines(),
        failures=marks,
    )
    page = PodPage(attempt=3, items=pods, total=8, counts={S.FIRST: 1, S.FOLLOWED: 7})
    return JobView(
        frame=FRAME,
        job=FAILED_JOB,
        tab=tab,
        attempt=3,
        chosen=LogFilter(attempt=3),
        timeline=timeline,
        pods=page,
        logs=log_window(),
        volume=volume(),
        metrics=metrics(),
        rendered=rendered(),
        events=events(),
        policies=policies(),
        file=job_file(),
    )
