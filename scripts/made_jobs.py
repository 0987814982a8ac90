"""The Job files of `scripts/made_runs.py`."""

from __future__ import annotations

from typing import Final

_HEAD: Final = "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata:\n  name: {name}\nspec:\n"


def _task(name: str, replicas: int, resources: str = "", more: str = "") -> str:
    limits = f"            resources: {{limits: {resources}}}\n" if resources else ""
    return (
        f"    - replicas: {replicas}\n      name: {name}\n{more}"
        "      template:\n        spec:\n          restartPolicy: Never\n          containers:\n"
        f"          - name: {name}\n            image: train/base:2.4\n            command: [python, -m, train]\n"
        f"            env:\n            - {{name: DATA_DIR, value: /data}}\n{limits}"
    )


def _job(name: str, spec: str, *tasks: str) -> str:
    return _HEAD.format(name=name) + spec + "  tasks:\n" + "".join(tasks)


_POLICIES: Final = (
    "  policies:\n    - event: PodEvicted\n      action: RestartJob\n    - event: PodFailed\n      action: RestartJob\n"
)
_PYTORCH: Final = '  plugins:\n    pytorch: ["--master=master", "--worker=worker", "--port=23456"]\n    svc: []\n'
_COMPLETE: Final = "      policies:\n        - event: TaskCompleted\n          action: CompleteJob\n"
_GPU: Final = "{cpu: 6, memory: 24Gi, nvidia.com/gpu: 1}"
_RETRY: Final = "      policies:\n        - exitCode: 42\n          action: RestartPod\n"

_MARKUP: Final = "'</td><script>alert(1)</script>'"

JOBS: Final = {
    "bert-pretrain": _job(
        "bert-pretrain",
        "  minAvailable: 8\n  maxRetry: 3\n  queue: train\n" + _POLICIES + _PYTORCH,
        _task("master", 1, _GPU, _COMPLETE),
        _task("worker", 7, _GPU, _RETRY),
    ),
    "sweep-1000": _job(
        "sweep-1000", "  minAvailable: 1\n  minSuccess: 950\n", _task("trial", 1000, "{cpu: 1, memory: 2Gi}")
    ),
    "llama-ft": _job(
        "llama-ft",
        "  minAvailable: 6\n  queue: train\n  activeDeadlineSeconds: 14400\n" + _PYTORCH,
        _task("master", 1, _GPU),
        _task("worker", 5, _GPU),
    ),
    "qwen-sft": _job(
        "qwen-sft", "  minAvailable: 8\n  queue: train\n" + _PYTORCH, _task("master", 1, _GPU), _task("worker", 7, _GPU)
    ),
    "eval-mmlu": _job("eval-mmlu", "  minAvailable: 12\n", _task("shard", 12, "{cpu: 2, memory: 8Gi}")),
    "dlrm-nightly": _job(
        "dlrm-nightly",
        "  minAvailable: 6\n  plugins:\n    svc: []\n",
        _task("ps", 2, "{cpu: 2, memory: 4Gi}"),
        _task("worker", 4, "{cpu: 2, memory: 4Gi}"),
    ),
    "pytorch-job": _job(
        "pytorch-job", "  minAvailable: 3\n" + _PYTORCH, _task("master", 1, "", _COMPLETE), _task("worker", 2)
    ),
    "hostile": _job("hostile", "  minAvailable: 1\n", _task("task", 1).replace("/data", _MARKUP)),
    "horovod": _job(
        "horovod",
        "  minAvailable: 4\n  policies:\n    - event: PodFailed\n      action: RestartJob\n",
        _task("worker", 4, "{cpu: 1, memory: 1Gi}"),
    ),
}
