"""What the tabs of the failed job show."""

from __future__ import annotations

from pumice.store.history.event_log import LoggedEvent
from pumice.ui.detail_values import (
    Events,
    File,
    Firing,
    Policies,
    PolicyRow,
    Rendered,
    RenderedItem,
)
from pumice.ui.values import RetryBudget
from tests.page.samples import after

DELAYS = {
    "master-0": 0.31,
    "worker-0": 0.42,
    "worker-1": 0.44,
    "worker-2": 0.40,
    "worker-3": 0.0,
    "worker-4": 0.58,
    "worker-5": 0.63,
    "worker-6": 0.91,
}
STARTS, LENGTHS = (0.0, 253.0, 580.0), (243.0, 317.0, 252.4)


def rendered() -> Rendered:
    rows = (
        ("env of container worker", "DATA_DIR", "/data", "you", "", 46),
        (
            "env of container worker",
            "MASTER_ADDR",
            "bert-pretrain-master-0.bert-pretrain",
            "pytorch",
            "where rank 0 listens",
            None,
        ),
        ("env of container worker", "WORLD_SIZE", "8", "pytorch", "master 1 + worker 7", None),
        ("env of container worker", "RANK", "4", "pytorch", "masters first, then worker-3", None),
        ("env of container worker", "VC_WORKER_NUM", "7", "svc", "from ConfigMap bert-pretrain-svc", None),
        ("ports and mounts of container worker", "23456", "pytorchjob-port", "pytorch", "opened for rendezvous", None),
        ("ports and mounts of container worker", "/data", "claim bert-data, read-only", "you", "", 49),
        ("names", "hostname", "bert-pretrain-worker-3", "svc", "so that the pod's name resolves", None),
        ("scheduling and defaults", "minAvailable", "8", "you", "starts all together", 6),
        ("scheduling and defaults", "restartPolicy", "Never", "default", "", None),
    )
    items = tuple(
        RenderedItem(
            heading=heading,
            kind="env",
            container="worker",
            name=name,
            value=value,
            by=by,
            why=why,
            line=number,
            per_pod=name in {"RANK", "hostname"},
        )
        for heading, name, value, by, why, number in rows
    )
    return Rendered(
        pod="worker-3",
        name="bert-pretrain-worker-3",
        attempt=3,
        pods=tuple(DELAYS),
        ranks=tuple(range(len(DELAYS))),
        rank=4,
        world=8,
        items=items,
        manifest="apiVersion: v1\nkind: Pod\n",
    )


def events() -> Events:
    rows = (
        (833, "Warning", "Failed", "no retry left, 4 of 4 spent", "", 1),
        (832.4, "Warning", "PodFailed", "worker-3: exit code 1", "worker-3", 1),
        (580, "Normal", "AttemptStarted", "attempt 3: 8 pods", "", 1),
        (338, "Warning", "PodFailed", "worker-5: exit code 42 → RestartPod", "worker-5", 1),
        (0, "Normal", "Created", "8 pods", "", 8),
    )
    items = tuple(
        LoggedEvent(seq=i, time=after(time), type=kind, reason=reason, message=message, pod=pod, count=count)
        for i, (time, kind, reason, message, pod, count) in enumerate(rows)
    )
    return Events(total=17, items=items)


FILE_TEXT = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: bert-pretrain
spec:
  minAvailable: 8
  maxRetry: 4
  queue: train
  policies:
    - event: PodEvicted
      action: RestartJob
    - event: PodFailed
      action: RestartJob
  plugins:
    pytorch: ["--master=master", "--worker=worker", "--port=23456", "--wait-master-enabled=true"]
    svc: []
  tasks:
    - replicas: 1
      name: master
"""


def job_file() -> File:
    return File(
        name="bert-pretrain.yaml",
        lines=tuple(FILE_TEXT.splitlines()),
        as_submitted=True,
        marks={7: "budget", 12: "fired", 13: "fired"},
    )


def policies() -> Policies:
    fired = tuple(
        Firing(time=after(start + length), attempt=i, pod="worker-3", text=text, spent=i)
        for i, (start, length, text) in enumerate(
            zip(
                STARTS,
                LENGTHS,
                (
                    "worker-3 (exit 1): attempt 2 began, 1 of 4 retries spent",
                    "worker-3 (exit 1): attempt 3 began, 3 of 4 spent",
                    "worker-3 (exit 1): 4 of 4 spent, so the job is Failed instead",
                ),
                strict=True,
            ),
            1,
        )
    )
    once = (
        Firing(
            time=after(338),
            attempt=2,
            pod="worker-5",
            text="worker-5 (exit 42): created again with the same rank and address, 2 of 4 retries spent",
            spent=2,
        ),
    )
    return Policies(
        items=(
            PolicyRow(
                path="spec.policies[1]", line=12, lines=(12, 13), when="PodFailed", action="RestartJob", firings=fired
            ),
            PolicyRow(
                path="tasks[1].policies[0]",
                line=36,
                lines=(36, 37),
                when="exitCode 42",
                action="RestartPod",
                task="worker",
                firings=once,
            ),
            PolicyRow(
                path="spec.policies[0]",
                line=10,
                lines=(10, 11),
                when="PodEvicted",
                action="RestartJob",
                why_not="no pod was evicted",
            ),
        ),
        budget=RetryBudget(spent=4, limit=4, line=7),
        rehearse="pumice simulate bert-pretrain.yaml -s worker-3-fails.yaml",
    )
