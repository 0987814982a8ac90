"""The examples of the Python API, as a user writes them. Tests run them as a script, in a notebook, and elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pumice
from pumice.plugins import PyTorch

TRAIN = 'echo "$VC_TASK_INDEX of $WORLD_SIZE, epochs: ${EPOCHS:-3}"'
FILE = Path("job.yaml")


def the_job() -> pumice.Job:
    return pumice.job(
        "ddp",
        tasks=[pumice.task("worker", replicas=4, command=["sh", "-c", TRAIN], cpu=4, memory="16Gi", gpu=1)],
        plugins=[PyTorch(master="worker", worker="worker")],
        policies=[pumice.Policy(event="PodFailed", action="RestartJob")],
        max_retry=3,
    )


def run_a_file() -> None:
    result = pumice.run(pumice.load(FILE), scale={"worker": 2}, env={"EPOCHS": "1"})
    print(result.phase)


def own_a_run() -> None:
    with pumice.start(pumice.load(FILE)) as run:
        for line in run.logs():
            print(line.time, line.pod, line.text)
        print(run.wait().verdict)


def submit_a_job() -> None:
    run = pumice.submit(the_job(), priority=10, fit=True, ignore=["nvidia.com/gpu"])
    try:
        result = run.wait(timeout=3600)
        print(result)
    except pumice.WaitTimeout:
        print(run, run.why())
        run.stop()


async def submit_and_await() -> None:
    async with pumice.AsyncClient() as client:
        run = await client.submit(the_job(), fit=True, ignore=["nvidia.com/gpu"])
        async for line in run.logs(task="worker"):
            print(line.text)
        assert (await run.wait()).ok


def resume_after_a_dead_worker() -> None:
    with pumice.start(pumice.load(FILE.with_name("resume.yaml"))) as run:
        run.wait("running", timeout=60)
        next(run.logs(pod="worker-1"))
        run.kill("worker-1")
        assert run.wait(timeout=100).attempts == 2
    assert any("resumed" in line.text for line in run.logs(attempt=2))


def connect_to_a_cluster() -> None:
    """Not run: a cluster is not supported yet."""
    with pumice.connect(context="lab", namespace="ml") as cluster:
        assert cluster.submit(the_job()).wait(timeout=7200).ok


def write_files() -> None:
    """The Job files of the examples."""
    Path("second").unlink(missing_ok=True)
    quick = pumice.task("worker", replicas=4, command=["sh", "-c", TRAIN])
    FILE.write_text(pumice.job("quick", tasks=[quick], plugins={"env": []}).to_yaml())
    script = "[ $VC_TASK_INDEX = 0 ] || if [ -e second ]; then echo resumed; else touch second; echo up; sleep 1000; fi"
    worker = pumice.task("worker", replicas=2, command=["sh", "-c", script])
    restart = pumice.Policy(event="PodFailed", action="RestartJob")
    resume = pumice.job("resume", tasks=[worker], plugins={"env": []}, policies=[restart])
    FILE.with_name("resume.yaml").write_text(resume.to_yaml())


def all_examples() -> None:
    """All that need no event loop of the caller."""
    write_files()
    run_a_file()
    own_a_run()
    submit_a_job()
    resume_after_a_dead_worker()


if __name__ == "__main__":
    import asyncio

    all_examples()
    asyncio.run(submit_and_await())
    pumice.Client().shut_down()
    sys.exit(0)
