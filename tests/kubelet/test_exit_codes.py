"""How commands end: the same exit code on this machine and on the cluster."""

from __future__ import annotations

import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.kubelet.jobs import Jobs
from tests.kubelet.typist import Typist

pytestmark = pytest.mark.kubelet

JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  tasks:
  - name: w
    replicas: 1
    template:
      spec:
        restartPolicy: Never
        terminationGracePeriodSeconds: 2
        containers:
        - {{name: main, image: "busybox:1.36.1", command: [sh, -c, "trap 'exit 9' TERM; {script}"]}}
"""
ENDLESS = "echo begun; sleep 600 & wait"


def _run(script: str, *flags: str) -> Callable[[Typist, str], int]:
    return lambda typist, name: typist.run("run", _file(typist, name, script), *flags).returncode


def _signalled(number: signal.Signals) -> Callable[[Typist, str], int]:
    def run(typist: Typist, name: str) -> int:
        with typist.started("run", _file(typist, name, ENDLESS)) as typed:
            typed.until("begun")
            typed.send(number)
            return typed.ended()

    return run


def _changed(command: str) -> Callable[[Typist, str], int]:
    def run(typist: Typist, name: str) -> int:
        with typist.started("run", _file(typist, name, ENDLESS)) as typed:
            typed.until("begun")
            assert typist.run(command, name).returncode == 0
            return typed.ended()

    return run


def _waited(script: str, *flags: str, change: str = "") -> Callable[[Typist, str], int]:
    def run(typist: Typist, name: str) -> int:
        assert typist.run("submit", _file(typist, name, script)).returncode == 0
        if change:
            typist.until("begun", "logs", name)
            assert typist.run(change, name).returncode == 0
        return typist.run("wait", name, *flags).returncode

    return run


def _file(typist: Typist, name: str, script: str) -> str:
    file = typist.folder / f"{name}.yaml"
    file.write_text(JOB.format(name=name, script=script))
    return file.name


CODES: dict[str, tuple[Callable[[Typist, str], int], int]] = {
    "run-succeeds": (_run("true"), 0),
    "run-fails": (_run("exit 3"), 3),
    "run-times-out": (_run(ENDLESS, "--timeout", "3s"), 124),
    "run-is-stopped": (_changed("stop"), 143),
    "run-is-suspended": (_changed("suspend"), 1),
    "run-is-interrupted": (_signalled(signal.SIGINT), 130),
    "run-gets-sigterm": (_signalled(signal.SIGTERM), 143),
    "run-loses-its-terminal": (_signalled(signal.SIGHUP), 129),
    "run-is-detached": (_signalled(signal.SIGQUIT), 0),
    "run-in-the-background": (_run(ENDLESS, "-d"), 0),
    "run-is-refused": (_run("true", "--no-such-option"), 2),
    "job-is-invalid": (_run("true", "--scale", "none=1"), 2),
    "wait-succeeds": (_waited("true"), 0),
    "wait-fails": (_waited("exit 3"), 100),
    "wait-is-stopped": (_waited(ENDLESS, change="stop"), 103),
    "wait-is-suspended": (_waited(ENDLESS, change="suspend"), 103),
    "wait-times-out": (_waited(ENDLESS, "--timeout", "1s"), 124),
    "wait-for-none": (lambda typist, name: typist.run("wait", name).returncode, 102),
}


@pytest.fixture(scope="module")
def codes(
    controller: object, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[int]]:
    """The codes of all commands, here and there, at once, because each waits most of the time."""
    cluster = request.getfixturevalue("cluster")
    jobs = Jobs(cluster, "exit-codes")
    cluster.make_namespace(jobs.namespace)
    folders = [tmp_path_factory.mktemp(name) for name in ("here", "there")]
    typists = [Typist.here(folders[0]), Typist.there(folders[1], cluster, jobs.namespace)]
    try:
        with ThreadPoolExecutor(4) as pool:
            ends = {
                name: [pool.submit(command, typist, name) for typist in typists] for name, (command, _) in CODES.items()
            }
            return {name: [each.result() for each in both] for name, both in ends.items()}
    finally:
        typists[0].run("stop", "--all")
        jobs.remove_namespace()


@pytest.mark.parametrize("name", CODES)
def test_a_command_ends_alike_here_and_there(codes: dict[str, list[int]], name: str) -> None:
    assert codes[name] == [CODES[name][1]] * 2
