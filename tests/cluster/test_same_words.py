"""The same Jobs run on this machine and on a cluster, with the same processes: every command says the same of both.

A controller, an API server and `SandboxKubelet` are the cluster. `backend_differences.toml` is the reviewed table of
what differs nevertheless: each row rewrites what is printed on this machine into what is printed of a cluster, and says
why. A row that changes nothing is an error.
"""

from __future__ import annotations

import copy
import datetime as dt
import difflib
import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.kubelet.container_logs import LogPump
from pumice.model.job import Manifest
from pumice.store.events import LogLine
from pumice.store.settings import Settings
from tests.cluster.api import Object, eventually
from tests.cluster.controllers import Controllers
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.sandbox_kubelet import SandboxKubelet
from tests.golden.changes import changed, read_rows
from tests.local.commands import Terminal, open_terminal
from tests.local.running import Result
from tests.local.sandbox import boxes

TABLE = Path(__file__).with_name("backend_differences.toml")
NAME = "train"
RUN = "RUN"
# After `pumice run`. Of `get`, only the run is compared: the Job has what its API server adds.
COMMANDS: dict[str, tuple[str, ...]] = {
    "ps": ("ps", "-a"),
    "why": ("why", RUN),
    "history": ("history", RUN),
    "logs": ("logs", RUN),
    "wait": ("wait", RUN),
    "get": ("get", RUN, "--exit-code", "-o", "json"),
    "attach": ("attach", RUN),
}
# What depends on the moment, and on the place: its value says nothing about the run.
TIMES = ("created", "started", "finished", "ran", "age", "after", "uid", "host", "directory", "workdir", "log", "text")


# Begins when the Job is Running, so that no phase is too short to be seen.
WAIT = "n=1; test -e SHARED/tried && n=2; until test -e SHARED/running-$n; do sleep 0.05; done; "
RESTART = [{"event": "PodFailed", "action": "RestartJob"}]
COMPLETE = [{"event": "TaskCompleted", "action": "CompleteJob"}]
TRACEBACK = "echo Traceback >&2; echo \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 3"


def a_task(name: str, script: str, replicas: int = 1, **more: Any) -> Manifest:
    container = {"name": name, "image": "busybox", "command": ["sh", "-c", WAIT + script]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]}
    return {"name": name, "replicas": replicas, **more, "template": {"spec": pod}}


def a_job(*tasks: Manifest, **spec: Any) -> Manifest:
    kind = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": NAME}}
    # The kubelet of the test binds its pods; a scheduler would say of some that there is no node.
    return {**kind, "spec": {"tasks": list(tasks), **spec, "schedulerName": "nobody"}}


# SHARED is a directory of this run.
STORIES: dict[str, Manifest] = {
    "completes": a_job(a_task("worker", "echo epoch 1; echo epoch 2", 2)),
    "fails": a_job(a_task("worker", TRACEBACK)),
    # `$$` is `$` in the command of a container.
    "signal": a_job(a_task("worker", "sh -c 'kill -9 $$$$'; exit $?")),
    "restarts": a_job(
        a_task("worker", "echo try $n; test $n = 2 || { touch SHARED/tried; exit 1; }"), policies=RESTART
    ),
    "policy": a_job(a_task("master", "echo served", policies=COMPLETE), a_task("worker", "exec sleep 600")),
}


class RecordingKubelet(SandboxKubelet):
    """Hands the output of its pods to the log server."""

    def __init__(self, logs: LogServer, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._logs = logs

    def _open_logs(self, pod: Object, container: str, attempt: int) -> tuple[LogPump, LogPump]:
        pumps = super()._open_logs(pod, container, attempt)
        output = self._logs.outputs[pod["metadata"]["name"], False] = ContainerOutput(ended=False)

        def record(lines: Sequence[LogLine]) -> None:
            now = f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%S.%f}000Z"  # noqa: TID251 - a kubelet uses the real time
            output.lines += [(now, line.text) for line in lines]

        for pump in pumps:
            pump.watch = record
        return pumps

    async def write(self, pod: Object, status: Object) -> None:
        await super().write(pod, status)
        [container] = status["containerStatuses"]
        output = self._logs.outputs.get((pod["metadata"]["name"], False))
        if output is not None and "terminated" in container["state"]:
            output.ended = True


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    boxes.need_namespaces()
    folder = tmp_path / "work"
    folder.mkdir()
    with open_terminal(folder) as terminal:
        yield terminal


def tell(terminal: Terminal, story: str, run: str, is_running: Callable[[int], bool], *flags: str) -> dict[str, str]:
    """Run the Job of a story, and return what each command prints. `is_running` says it of an attempt."""
    shared = terminal.workspace.directory / f"of-{run.partition(':')[0]}-{len(flags)}"
    shared.mkdir()
    job = copy.deepcopy(STORIES[story])
    for task in job["spec"]["tasks"]:
        [container] = task["template"]["spec"]["containers"]
        container["command"][-1] = container["command"][-1].replace("SHARED", str(shared))
    file = terminal.workspace.write(job)

    def begin() -> None:
        for attempt in (1, 2) if story == "restarts" else (1,):
            eventually(f"attempt {attempt} runs", partial(is_running, attempt))
            (shared / f"running-{attempt}").touch()

    beginner = threading.Thread(target=begin)
    beginner.start()
    told = {"run": shown(terminal("run", file, *flags, code=None))}
    beginner.join()
    for name, words in COMMANDS.items():
        told[name] = shown(terminal(*(run if word == RUN else word for word in words), *flags, code=None), name)
    return told


def shown(done: Result, command: str = "run") -> str:
    """Return what a command printed, without times, and the lines of each pod together."""
    if command == "get":
        run = json.loads(done.out)["run"]
        return f"{json.dumps(timeless(run), indent=1)}\nexit code {done.code}\n"
    # Said only of a start that takes long.
    err = re.sub(r"^waits: .* being started\n", "", done.err, flags=re.MULTILINE)
    lines = sorted(done.out.splitlines(), key=lambda line: line.partition(" ")[0]) if command != "ps" else [done.out]
    text = "\n".join([*lines, err, f"exit code {done.code}\n"])
    # The width of a column follows from what is in it.
    return re.sub(r"(?<=\S) {3,}", "  ", re.sub(r"\b[0-9.]+(?:ms|s)\b *", "TIME ", text))


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: timeless(each) for name, each in value.items() if name not in TIMES}
    return re.sub(r"\b[0-9.]+s\b", "TIME", value) if isinstance(value, str) else value


@dataclass(slots=True)
class Both:
    """Tells a story on this machine, and on the cluster."""

    controllers: Controllers
    namespace: str
    terminal: Terminal
    state: Path

    def here(self, story: str) -> dict[str, str]:
        def runs(attempt: int) -> bool:
            return [(each["phase"], each["attempt"]) for each in self.terminal.items("-a")] == [("Running", attempt)]

        told = tell(self.terminal, story, f"{NAME}:1", runs)
        folder = str(self.terminal.workspace.directory)
        return {command: text.replace(folder, "DIR") for command, text in told.items()}

    def there(self, story: str) -> dict[str, str]:
        cluster, api = self.controllers.cluster, self.controllers.cluster.api()

        def runs(attempt: int) -> bool:
            status = (api.find("Job", self.namespace, NAME) or {}).get("status", {})
            return (status.get("state", {}).get("phase"), status.get("retryCount", 0) + 1) == ("Running", attempt)

        with LogServer(cluster) as logs:
            config = cluster.kubeconfig(server=logs.server, namespace=self.namespace)
            self.terminal.workspace.environ["KUBECONFIG"] = str(config)
            self.controllers.start(self.namespace)
            settings = Settings(workdir=self.terminal.workspace.directory, state=self.state)
            with RecordingKubelet(logs, cluster, self.namespace, settings, max_grace=1):
                told = tell(self.terminal, story, NAME, runs, "--on", "admin")
        return {command: text.replace(self.namespace, "NS") for command, text in told.items()}


@pytest.fixture
def both(controllers: Controllers, namespace: str, tmp_path: Path, terminal: Terminal) -> Both:
    return Both(controllers, namespace, terminal, tmp_path / "kubelet")


@pytest.mark.parametrize("story", STORIES)
def test_both_backends_say_the_same(both: Both, story: str) -> None:
    here, there = both.here(story), both.there(story)
    rows = [row for row in read_rows(TABLE) if any(row.applies(story, command) for command in here)]
    changed_here, unused = changed({story: here}, rows)
    assert not unused
    assert changed_here[story] == there, "\n".join(_differences(changed_here[story], there))


def _differences(here: dict[str, str], there: dict[str, str]) -> Iterator[str]:
    for command, text in here.items():
        lines, others = text.splitlines(), there[command].splitlines()
        yield from difflib.unified_diff(lines, others, f"{command}, here", f"{command}, there", lineterm="")
