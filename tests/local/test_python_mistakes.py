"""Mistakes in a program: each raises a public error, says what to do, and names arguments of Python, not flags."""

from __future__ import annotations

import asyncio
import inspect
import re
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pumice
from pumice.plugins import PyTorch
from tests.local.sandbox.boxes import need_namespaces

PUBLIC = {each for each in (getattr(pumice, name) for name in pumice.__all__) if inspect.isclass(each)}
FLAGS = re.compile(r"(?<![\w-])--[a-z]|\bpumice (?:run|submit|stop|ps|resume|scale|exec)\b")
MOST_FRAMES = 9
WAITING = "mkdir /data; : > /data/file; while :; do sleep 0.1; done"


def _job(**fields: Any) -> pumice.Job:
    return pumice.job("trial", tasks=[pumice.task("w", **{"command": ["true"], **fields})])


def _pods(**fields: Any) -> pumice.Job:
    job = _job()
    job.spec.tasks[0].pod_spec.update(fields)
    return job


def _mounting(kind: str, name: str, **source: Any) -> pumice.Job:
    job = _pods(volumes=[{"name": "v", kind: source or {"name": name}}])
    job.spec.tasks[0].pod_spec["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    return job


def _imageless() -> pumice.Job:
    job = pumice.job("trial", tasks=[pumice.task("w", image="trainer:1")])
    job.spec.tasks[0].pod_spec["containers"][0]["args"] = ["--epochs"]
    return job


Client = pumice.Client
Call = Callable[[], object]
# What a program does with a client: the class of the error, and what its text has.
# The values that the type checker would refuse are what is tested: hence `type: ignore` here and below.
STARTS: dict[str, tuple[Callable[[Client], object], type[BaseException], str]] = {
    "no such option": (lambda c: c.submit(_job(), scal={"w": 1}), pumice.InvalidOption, "did you mean scale"),  # type: ignore[call-arg]
    "scale: task": (
        lambda c: c.submit(_job(), scale={"x": 1}),
        pumice.InvalidOption,
        "scale: x=1: the job has no task",
    ),
    "scale: none left": (lambda c: c.submit(_job(), scale={"w": 0}), pumice.InvalidOption, 'hint: scale={"w": 1} runs'),
    "scale: number": (lambda c: c.submit(_job(), scale={"w": -1}), pumice.InvalidOption, "scale: w=-1: N must be"),
    "network": (lambda c: c.submit(_job(), network="x"), pumice.InvalidOption, "network: x: must be one of"),  # type: ignore[arg-type]
    "env": (lambda c: c.submit(_job(), env=["NOT_SET"]), pumice.InvalidOption, "env: NOT_SET: is not set here"),
    "env_file": (lambda c: c.submit(_job(), env_file="none"), pumice.InvalidOption, "none: no such file"),
    "mount": (lambda c: c.submit(_job(), mount="none"), pumice.InvalidOption, "mount: none: no such file"),
    "timeout": (lambda c: c.submit(_job(), timeout=0), pumice.InvalidOption, "timeout: 0: must be more than 0"),
    "max_wait": (lambda c: c.submit(_job(), max_wait="soon"), pumice.InvalidOption, "max_wait: soon: "),
    "pids_limit": (lambda c: c.submit(_job(), pids_limit=0), pumice.InvalidOption, "pids_limit: 0: must be"),
    "python": (lambda c: c.submit(_job(), python="none"), pumice.InvalidOption, "python: none: no such Python"),
    "kill": (lambda c: c.submit(_job(), kill="x-0@1s"), pumice.InvalidOption, "kill: x-0@1s: the job has no pod"),
    "kill: time": (lambda c: c.submit(_job(), kill="w-0@x"), pumice.InvalidOption, "kill: w-0: x: "),
    "publish": (lambda c: c.submit(_job(), publish="w-9:80"), pumice.InvalidOption, "publish: w-9:80: the job has"),
    "ignore": (lambda c: c.submit(_job(), ignore="a/gpu"), pumice.InvalidOption, "ignore: a/gpu: the job asks for no"),
    "image": (lambda c: c.submit(_job(), image={"a": "none"}), pumice.InvalidOption, "image: a="),
    "with_": (lambda c: c.submit(_job(), with_="none.yaml"), pumice.InvalidJob, "none.yaml: no such file"),
    "entrypoint": (lambda c: c.submit(_job(), entrypoint={"a": "x"}), pumice.InvalidOption, "entrypoint: a: the job"),
    "no image": (
        lambda c: c.submit(_imageless()),
        pumice.Unsupported,
        'pull=True fetches it; else image={"trainer:1": "P',
    ),
    "too large": (
        lambda c: c.submit(_job(gpu=64)),
        pumice.DoesNotFit,
        'hint: fit=True, or ignore=["nvidia.com/gpu"]',
    ),
    "too large, run": (lambda c: c.run(_job(gpu=64)), pumice.DoesNotFit, "hint: fit=True, or ignore"),
    "too many": (lambda c: c.start(_job(replicas=400, cpu=1)), pumice.DoesNotFit, 'hint: fit=True, or scale={"w": '),
    "no claim": (
        lambda c: c.submit(_mounting("persistentVolumeClaim", "", claimName="data")),
        pumice.Unsupported,
        'data\n  hint: add the PersistentVolumeClaim to the job\'s file, or pass it with with_="FILE"',
    ),
    "no ConfigMap": (lambda c: c.submit(_mounting("configMap", "c")), pumice.Unsupported, 'pass it with with_="FILE"'),
    "consent": (
        lambda c: c.submit(_mounting("hostPath", "", path="/etc/shadow")),
        pumice.Denied,
        'hint: allow_host_path="/etc/shadow"',
    ),
    "not a Job": (lambda c: c.submit("job.yaml"), pumice.InvalidOption, "job: must be a Job, found str"),  # type: ignore[arg-type]
    "invalid": (lambda c: c.submit(pumice.job("A B", tasks=[])), pumice.InvalidJob, "a job needs at least one task"),
    "no such run": (lambda c: c.get("none"), pumice.NoSuchRun, "hint: `pumice.runs(all=True)` lists all runs"),
    "no name": (lambda c: c.get(""), pumice.NoSuchRun, ": no such run"),
    "no file": (lambda _: pumice.load("none.yaml"), pumice.InvalidJob, "none.yaml: no such file"),
    "directory": (lambda _: pumice.load("."), pumice.InvalidJob, "is a directory"),
    "task": (lambda _: pumice.task("w"), pumice.InvalidOption, "task w: needs command, function or image"),
    "plugin": (
        lambda _: _with_plugin(PyTorch(port=-1)),
        pumice.InvalidJob,
        "PyTorch(port=-1): must be between 1 and 65535",
    ),
    "cluster": (lambda _: pumice.connect("lab"), pumice.InvalidOption, "no cluster to connect to: "),
}


def _with_plugin(plugin: PyTorch) -> pumice.Job:
    return pumice.job("trial", tasks=[pumice.task("w", command=["true"])], plugins=[plugin])


@pytest.fixture(scope="module", autouse=True)
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    need_namespaces()
    directory = tmp_path_factory.mktemp("mistakes")
    directory.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(directory))
        patch.setenv("XDG_CONFIG_HOME", str(directory))
        patch.chdir(directory)
        yield directory


@pytest.fixture(scope="module")
def client(workdir: Path) -> Iterator[Client]:
    found = Client(state=workdir / "state")
    yield found
    found.shut_down()


def _differs(call: Call, kind: type[BaseException], text: str) -> str:
    """Return what differs from what is expected of an error; empty if nothing does."""
    try:
        call()
    except pumice.PumiceError as error:
        # The caller's frames, and few of Pumice's.
        frames = len(traceback.extract_tb(error.__traceback__))
        nearest = next(each for each in type(error).__mro__ if each in PUBLIC)
        good = nearest is kind and text in str(error) and not FLAGS.search(str(error)) and frames <= MOST_FRAMES
        return "" if good else f"{kind.__name__} {text!r}: got {nearest.__name__} ({frames} frames): {error}"
    except Exception as error:  # noqa: BLE001 - every other one is wrong
        return f"{kind.__name__} {text!r}: got {error!r}"
    return f"{kind.__name__} {text!r}: no error"


def test_what_cannot_start(client: Client) -> None:
    found = {name: _differs(partial(call, client), kind, text) for name, (call, kind, text) in STARTS.items()}
    assert {name: text for name, text in found.items() if text} == {}
    with pytest.raises(pumice.DoesNotFit) as caught:
        client.submit(_job(gpu=64))
    assert [(each.resource, each.wanted) for each in caught.value.shortages] == [("nvidia.com/gpu", "64")]
    assert client.runs(all=True) == []


def test_what_a_run_cannot_do(client: Client, workdir: Path) -> None:
    with client.start(pumice.job("live", tasks=[pumice.task("w", command=["sh", "-c", WAITING])])) as run:
        run.wait("running")
        while run.exec("w-0", ["test", "-e", "/data/file"]).returncode:
            continue
        (workdir / "file").touch()
        shows = 'hint: run.exec("w-0", ["ls", "-la", "/data"]) shows what is there'
        asynchronous = pumice.AsyncClient(state=workdir / "state")
        calls: list[tuple[Call, type[BaseException], str]] = [
            (lambda: run.kill("w-9"), pumice.NoSuchPod, "w-9"),
            (lambda: run.kill("w-0", 999), pumice.InvalidOption, "signal: 999: must be"),
            (lambda: run.exec("w-9", ["true"]), pumice.NoSuchPod, "w-9"),
            (lambda: run.exec("w-0", ["true"], container="x"), pumice.NoSuchPod, "x"),
            (lambda: run.exec("w-0", ["none"]), pumice.InvalidOption, "command: none"),
            (lambda: run.exec("w-0", []), pumice.InvalidOption, "command: the command is empty"),
            (lambda: run.exec("w-0", "ls -la"), pumice.InvalidOption, 'must be a list of words, such as ["ls", "-la"]'),
            (lambda: run.exec("w-0", ["sleep", "99"], timeout=0.1), pumice.WaitTimeout, "not ended within 0.1s"),
            (
                lambda: run.copy_to("none", "w-0", "/data"),
                pumice.InvalidOption,
                f"none: no such file or directory\n  hint: the path is relative to {workdir}",
            ),
            (lambda: run.copy_to("a/b", "w-0", "/data"), pumice.InvalidOption, "hint: a does not exist"),
            (
                lambda: run.copy_to("file", "w-0", "/data/x/y"),
                pumice.InvalidOption,
                "live:1/w-0:/data/x/y: no such file",
            ),
            (lambda: run.copy_to("file", "w-0", "/proc/x"), pumice.InvalidOption, "live:1/w-0:/proc/x: "),
            (lambda: run.copy_to("file", "w-9", "/data"), pumice.NoSuchPod, "w-9"),
            (
                lambda: run.copy_from("w-0", "/data/none", "x"),
                pumice.InvalidOption,
                f"live:1/w-0:/data/none: no such file or directory\n  {shows}",
            ),
            (
                lambda: run.copy_from("w-0", "/data/file", "a/b"),
                pumice.InvalidOption,
                "a/b: no such file or directory\n  hint: a does",
            ),
            (lambda: run.copy_from("w-0", "/data", "file"), pumice.InvalidOption, "file: not a directory"),
            (lambda: run.logs(task="x"), pumice.NoSuchPod, "task: x: no such task of live:1"),
            (lambda: run.logs(container="x", follow=False), pumice.NoSuchPod, "container: x: no such container"),
            (lambda: run.logs(attempt=9, follow=False), pumice.NoSuchPod, "attempt: 9: no such attempt"),
            (lambda: run.logs(pod="x-0"), pumice.NoSuchPod, "live:1/x-0: no such pod"),
            (lambda: run.logs(grep="("), pumice.InvalidOption, "grep: (: "),
            (lambda: run.logs(since="then"), pumice.InvalidOption, "since: then: "),
            (lambda: run.logs(tail="x"), pumice.InvalidOption, "tail: 'x': must be"),  # type: ignore[arg-type]
            (lambda: run.wait("done"), pumice.InvalidOption, "goal: done: unknown"),
            (lambda: run.wait(timeout="soon"), pumice.InvalidOption, "timeout: soon: "),
            (lambda: run.wait(timeout=0.1), pumice.WaitTimeout, "live:1: not finished within 0.1s"),
            (lambda: run.why("w-9"), pumice.NoSuchPod, "w-9"),
            (lambda: run.scale({"x": 1}), pumice.InvalidOption, "scale: x=1: the job has no task x"),
            (lambda: run.scale({"w": "x"}), pumice.InvalidOption, "scale: w: 'x': must be"),  # type: ignore[dict-item]
            (lambda: run.scale({"w": -1}), pumice.InvalidOption, "scale: w: -1: must be"),
            (run.resume, pumice.WrongState, "live:1 is not suspended"),
            (lambda: run.resume(with_=["none"]), pumice.InvalidJob, "none: no such file"),
            (run.remove, pumice.WrongState, "hint: run.stop(), or force=True"),
            (run.watch, pumice.Unsupported, "run.logs() yields its lines"),
            (lambda: run.stop(grace="x"), pumice.InvalidOption, "grace: x: "),
            (lambda: asyncio.run(asynchronous.get("none")), pumice.NoSuchRun, "hint: `pumice.runs(all=True)`"),
        ]
        assert "\n".join(filter(None, (_differs(*each) for each in calls))) == ""
        assert run.status().phase == "Running"
    ended: list[tuple[Call, type[BaseException], str]] = [
        (lambda: run.copy_from("w-0", "/data/file", "x"), pumice.WrongState, "only a run with keep=True has the files"),
        (lambda: run.copy_to("file", "w-0", "/x"), pumice.WrongState, "live:1 is not running: Stopped"),
        (lambda: run.exec("w-0", ["true"]), pumice.WrongState, "live:1 is not running"),
        (run.detach, pumice.WrongState, "live:1 is not running here"),
        (lambda: run.scale({"w": 2}), pumice.WrongState, "live:1 "),
        (run.suspend, pumice.WrongState, "live:1 "),
        (run.restart, pumice.WrongState, "live:1 "),
    ]
    assert "\n".join(filter(None, (_differs(*each) for each in ended))) == ""
    run.remove()
    assert not (workdir / "x").exists()
