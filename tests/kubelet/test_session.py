"""One session of commands on this machine and on the cluster: the same words, but for a reviewed table of differences.

`differences.toml` has every line that only one of them prints, and why. A line that it lacks fails the test, and so
does a row that is no longer true.
"""

from __future__ import annotations

import difflib
import re
import signal
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.api import eventually
from tests.kubelet.jobs import Jobs
from tests.kubelet.typist import Typist

pytestmark = pytest.mark.kubelet
TABLE = Path(__file__).with_name("differences.toml")
Lines = Sequence[str]

TRAIN = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: train
spec:
  policies: [{event: PodFailed, action: TerminateJob}]
  plugins: {env: []}
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        restartPolicy: Never
        terminationGracePeriodSeconds: 2
        containers:
        - {name: main, image: "busybox:1.36.1", command: [python3, train.py], env: [{name: LR, value: "1"}]}
"""
PROGRAM = """\
import os, sys, time
for epoch in range(3):
    print("epoch", epoch, os.environ["LR"], *sys.argv[1:], flush=True)
time.sleep(2)
if "--fail" in sys.argv:
    if os.environ["VK_TASK_INDEX"] == "1":
        raise ValueError("the loss is nan")
    time.sleep(600)
"""
# Its workers are ready when somebody says so, and its evaluator waits for them.
SERVE = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: serve
spec:
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        restartPolicy: Never
        terminationGracePeriodSeconds: 2
        containers:
        - name: main
          image: busybox:1.36.1
          command: [sh, -c, "mkdir /tmp/www; cd /tmp/www; echo serving; exec python3 -m http.server >/dev/null 2>&1"]
          readinessProbe: {exec: {command: [test, -e, /tmp/ready]}, periodSeconds: 1}
  - name: evaluator
    replicas: 1
    dependsOn: {name: [worker]}
    template:
      spec:
        restartPolicy: Never
        terminationGracePeriodSeconds: 2
        containers:
        - {name: main, image: "busybox:1.36.1", command: [sh, -c, "echo evaluating; exec sleep 600"]}
"""


def session(typist: Typist) -> Mapping[str, Lines]:
    """Type everything that a user types who tries a job, changes it and takes it away."""
    files = {"train.yaml": TRAIN, "train.py": PROGRAM, "serve.yaml": SERVE, "hello.txt": "hello\n"}
    for name, text in files.items():
        typist.folder.joinpath(name).write_text(text)
    code = ("--code",) if typist.context else ()
    typist.type("validate", "validate", "train.yaml", "serve.yaml")
    typist.type("run", "run", "train.yaml", *code, "--", "--lr", "0.1")
    typist.type("logs", "logs", "train")
    again = ("--replace",) if typist.context else ()
    typist.type("run that fails", "run", "train.yaml", *code, *again, "--", "--fail")
    typist.type("why it failed", "why", "train")

    typist.type("submit", "submit", "serve.yaml")
    for pod in (0, 1):
        typist.until("serving", "logs", f"serve/worker-{pod}")
    typist.until("waits for worker", "why", "serve")
    typist.type("why it waits", "why", "serve/evaluator-0")
    _make_ready(typist, workers=2)
    typist.type("wait for it", "wait", "serve", "--for", "Running")
    typist.type("ps", "ps", "serve")
    _reach_into_a_pod(typist)
    typist.type("suspend", "suspend", "serve")
    typist.type("wait for a suspended one", "wait", "serve")
    typist.type("resume", "resume", "serve")
    _make_ready(typist, workers=2)
    with typist.started("logs", "-f", "serve") as logs:
        logs.until("evaluator-0  evaluating")
        typist.type("scale", "scale", "serve", "worker=1")
        typist.until("2/2", "ps", "serve")
        typist.type("rm while it runs", "rm", "serve")
        typist.type("stop", "stop", "serve")
        typist.note("logs -f", logs.ended(), "".join(logs.out), "".join(logs.err))
    typist.type("wait for a stopped one", "wait", "serve")
    typist.type("why it ended", "why", "serve")
    typist.type("replace", "submit", "serve.yaml", *again)
    for pod in (0, 1):
        typist.until("serving", "logs", f"serve/worker-{pod}")
    typist.type("restart", "restart", "serve")
    typist.type("stop the new one", "stop", "serve")
    typist.run("wait", "serve")
    if not typist.context:
        typist.run("rm", "serve:2")
    typist.type("rm", "rm", "serve")
    typist.type("get after rm", "get", "serve")
    return typist.said


def _make_ready(typist: Typist, workers: int) -> None:
    """Let the workers be ready: those of now, for the pods of an earlier attempt may still take commands."""

    def runs() -> bool:
        for pod in range(workers):
            typist.run("exec", f"serve/worker-{pod}", "--", "touch", "/tmp/ready")
        return typist.run("wait", "serve", "--for", "Running", "--timeout", "2s").returncode == 0

    eventually("the Job runs", runs)


def _reach_into_a_pod(typist: Typist) -> None:
    script = "cat; echo out; echo err >&2; exit 5"
    typist.type("exec", "exec", "serve/worker-0", "--", "sh", "-c", script, stdin="in\n")
    typist.type("exec of a missing program", "exec", "serve/worker-0", "--", "nosuchprogram")
    script = 'until [ "$(stty size)" = "30 90" ]; do sleep 0.1; done; echo sized; read word; echo "[$word]"; exit 6'
    code, printed = typist.on_terminal("word", "exec", "serve/worker-0", "--", "sh", "-c", script, after="sized")
    typist.note("exec on a terminal", code, printed)
    typist.type("cp to a pod", "cp", "hello.txt", "serve/worker-0:/tmp/www/")
    typist.type("cp from a pod", "cp", "serve/worker-0:/tmp/www", "back")
    for file in sorted(typist.folder.joinpath("back").glob("*")):
        typist.note("cp from a pod", None, f"{file.name}: {file.read_text()}")
    typist.type("cp of a missing file", "cp", "serve/worker-0:/tmp/none", "back")
    with typist.started("forward", "serve/worker-0", "8000") as forward:
        address = forward.until("127.0.0.1:").strip()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{address}/hello.txt") as answer:
            typist.note("forward", None, answer.read().decode())
        forward.send(signal.SIGINT)
        typist.note("forward", forward.ended(), "".join(forward.out), "".join(forward.err))


def test_the_same_session_says_the_same_here_and_there(jobs: Jobs, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("here", "there")]
    for folder in folders:
        folder.mkdir()
    typists = [Typist.here(folders[0]), Typist.there(folders[1], jobs.cluster, jobs.namespace)]
    with ThreadPoolExecutor() as pool:
        here, there = pool.map(session, typists)
    rows: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["difference"]
    assert all(row["reason"] for row in rows)
    reviewed = {row["step"]: row for row in rows}
    found = list(_differences(here, there, reviewed))
    assert not found, "\n".join(found)


def _differences(here: Mapping[str, Lines], there: Mapping[str, Lines], rows: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the table does not have, and what it has in vain."""
    for step in dict.fromkeys((*here, *there, *rows)):
        row = rows.get(step, {})
        unsure = re.compile("|".join(row.get("now_and_then", ())) or "(?!)")
        lines = [[line for line in said.get(step, ()) if not unsure.fullmatch(line)] for said in (here, there)]
        only = {name: list[str]() for name in ("here", "there")}
        for change, start, end, other_start, other_end in difflib.SequenceMatcher(
            None, lines[0], lines[1], autojunk=False
        ).get_opcodes():
            if change != "equal":
                only["here"] += lines[0][start:end]
                only["there"] += lines[1][other_start:other_end]
        for name, printed in only.items():
            if printed != row.get(name, []):
                yield f"{step}: only {name}: {printed}\n  the table has: {row.get(name, [])}"
