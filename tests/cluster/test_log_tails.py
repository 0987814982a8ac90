"""`--keep-log-tails`: what the first failed pod of each attempt printed last outlives it, in a Secret of the Job."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pumice.cli.main import main
from pumice.store.logs.log_tails import MOST_BYTES
from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers, grant_logs
from tests.cluster.fake_kubelet import FakeKubelet, PodScript
from tests.cluster.fault_proxy import Call
from tests.cluster.jobs import a_job, send_command, status, until_phase
from tests.cluster.log_server import ContainerOutput, LogServer

SECRET = "train-log-tails"
FAILED = "train-worker-1"
POLICIES = [{"event": "PodFailed", "action": "RestartJob"}]


@dataclass(slots=True)
class Story:
    """A Job of two pods of which the second fails in its first attempts."""

    cluster: Cluster
    api: Api
    namespace: str
    server: LogServer
    controllers: Controllers
    attempts: int = 1  # that fail

    def behaviour(self, pod: Object) -> PodScript:
        retry = int(pod["metadata"]["annotations"].get("volcano.sh/job-retry-count", "0"))
        fails = pod["metadata"]["name"] == FAILED and retry < self.attempts
        return PodScript(seconds=0.0, code=3) if fails else PodScript()

    def start(self) -> None:
        """Start a controller and the Job, and wait until an attempt does not fail."""
        self.controllers.start(self.namespace, "--keep-log-tails", server=self.server.server)
        self.api.create("Job", self.namespace, a_job(policies=POLICIES, maxRetry=20))
        self.until_restarted()

    def until_restarted(self) -> None:
        def is_restarted() -> bool:
            found = status(self.api, self.namespace)
            is_running = found.get("state", {}).get("phase") == "Running"
            return is_running and found.get("retryCount", 0) == self.attempts and found.get("running") == 2

        eventually("the last attempt runs", is_restarted)

    def prints(self, *texts: str) -> None:
        lines = [
            (f"2026-11-18T12:{number // 60:02d}:{number % 60:02d}.000000000Z", text)
            for number, text in enumerate(texts)
        ]
        self.server.outputs[FAILED, False] = ContainerOutput(lines)

    @property
    def kept(self) -> dict[str, bytes]:
        secret = self.api.find("Secret", self.namespace, SECRET)
        data = {} if secret is None else secret.get("data") or {}
        return {name: base64.b64decode(value) for name, value in data.items()}


@pytest.fixture
def story(
    controllers: Controllers, api: Api, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Story]:
    cluster = controllers.cluster
    grant_logs(cluster, namespace)
    with LogServer(cluster) as server:
        story = Story(cluster, api, namespace, server, controllers)
        story.prints("loading", "RuntimeError: bad shape")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig(server=server.server, namespace=namespace)))
        monkeypatch.setenv("PUMICE_ON", "admin")
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            monkeypatch.delenv(name, raising=False)
        with FakeKubelet(cluster, namespace, story.behaviour):
            yield story
            # Before the proxy, which waits for its connections.
            for daemon in controllers.started:
                daemon.stop()


Type = Callable[..., tuple[int, str, str]]


@pytest.fixture
def type_command(capsys: pytest.CaptureFixture[str]) -> Type:
    def run(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        return code, *capsys.readouterr()

    return run


def test_the_log_of_an_earlier_attempt_is_read(story: Story, type_command: Type) -> None:
    story.start()
    secret = story.api.get("Secret", story.namespace, SECRET)
    [owner] = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Job", "train")
    code, out, _ = type_command("logs", "train", "--attempt", "1")
    assert (code, out) == (0, "worker-1  loading\nworker-1  RuntimeError: bad shape\n")
    code, out, _ = type_command("logs", "train", "--attempt", "1", "--no-prefix", "-t", "--tail", "1")
    assert out == "2026-11-18T12:00:01.000Z RuntimeError: bad shape\n"
    _, out, _ = type_command("why", "train")
    assert "Secret train-log-tails attempt 1" in out
    assert "worker-1 failed: exit code 3 in container main; RuntimeError: bad shape" in out
    _, out, _ = type_command("history", "train")
    assert "worker-1: exit code 3" in out.splitlines()[1]
    # Nothing of the log is where more people may read.
    job = story.api.get("Job", story.namespace, "train")
    events = story.api.list("Event", story.namespace)
    assert "bad shape" not in f"{job} {events}"


def test_a_user_without_the_right_to_secrets_reads_of_it(story: Story, type_command: Type) -> None:
    story.start()
    resources = "--resource=jobs.batch.volcano.sh,pods,pods/log,events"
    story.cluster.kubectl("-n", story.namespace, "create", "role", "reader", "--verb=get,list,watch", resources)
    story.cluster.kubectl("-n", story.namespace, "create", "rolebinding", "reader", "--role=reader", "--user=plain")
    config = str(story.cluster.kubeconfig("plain", server=story.server.server, namespace=story.namespace))
    where = ("--on", "plain", "--kubeconfig", config)
    done = "if lines are kept, they are in Secret train-log-tails, not readable for you"
    code, out, _ = type_command("why", "train", *where)
    assert (code, done in out) == (0, True)
    code, _, err = type_command("logs", "train", "--attempt", "1", *where)
    assert (code, done in err) == (1, True)


def test_without_the_flag_it_is_said_what_is_gone(story: Story, type_command: Type) -> None:
    story.controllers.start(story.namespace, server=story.server.server)
    story.api.create("Job", story.namespace, a_job(policies=POLICIES, maxRetry=20))
    story.until_restarted()
    assert story.kept == {}
    assert story.server.asked == []
    _, out, _ = type_command("why", "train")
    assert "attempt 1: the log of the pod that failed is gone with it; an administrator keeps" in out
    assert "pumice install --keep-log-tails" in out
    code, _, err = type_command("logs", "train", "--attempt", "1")
    assert code == 2
    assert err == (
        "train: attempt 1: its logs are gone with its pods\n"
        "  hint: an administrator keeps the last lines of later ones: pumice install --keep-log-tails\n"
    )


def test_the_last_ten_attempts_are_kept(story: Story) -> None:
    story.attempts = 12
    story.start()
    eventually("the last tail is written", lambda: "attempt-12.log" in story.kept)
    assert sorted(story.kept) == sorted(f"attempt-{n}.{kind}" for n in range(3, 13) for kind in ("json", "log"))


@pytest.mark.parametrize(
    ("texts", "first", "last"),
    [
        pytest.param([f"line {n}" for n in range(300)], "line 200", "line 299", id="many lines"),
        pytest.param(["x" * 2000] * 20 + ["end"], "x" * 2000, "end", id="long lines"),
        pytest.param(["start", "y" * 400_000 + "end"], "", "", id="a huge line"),
        pytest.param(
            ["\x1b[31mred\x1b[2J", "nul \0 bell \a", "bad \udcff\udc80 \rbytes"], "\x1b[31m", "bytes", id="hostile"
        ),
        pytest.param([], "", "", id="nothing"),
    ],
)
def test_any_log_is_kept_within_limits_and_shown_safely(
    story: Story, type_command: Type, texts: list[str], first: str, last: str
) -> None:
    story.prints(*texts)
    story.start()
    kept = story.kept["attempt-1.log"]
    lines = kept.split(b"\n")[:-1]
    assert len(kept) <= MOST_BYTES
    assert len(lines) <= 100
    if texts:
        assert first.encode() in lines[0]
        assert lines[-1].endswith(last.encode())
    code, out, err = type_command("logs", "train", "--attempt", "1", "-t")
    assert code == (0 if texts else 2), err
    # In a pipe, lines are as they were printed; terminals get no escape sequences.
    assert out.count("\n") == len(lines)
    for words in (("why", "train"), ("history", "train"), ("history", "train", "--events")):
        code, out, _ = type_command(*words)
        assert code == 0
        assert not {"\x1b", "\0", "\a", "\r"} & set(out)


def test_a_log_that_does_not_come_delays_no_deletion_for_long(story: Story, type_command: Type) -> None:
    story.server.hangs = True
    begins: list[float] = []
    ends: list[float] = []

    def note(call: Call) -> bool:
        if call.method == "PATCH" and call.path.endswith(f"/secrets/{SECRET}") and not begins:
            begins.append(time.monotonic())
        if call.method == "DELETE" and call.path.endswith(FAILED) and not ends:
            ends.append(time.monotonic())
        return True

    story.server.after = note
    story.start()
    assert story.server.asked == [FAILED]
    # The server never answers: the pod was deleted before its log came.
    assert begins[0] < ends[0]
    code, _, err = type_command("logs", "train", "--attempt", "1")
    assert code == 2
    assert "worker-1 failed, and its log was not kept: its node did not send the log within 1.2 s" in err


def test_without_the_right_to_logs_the_job_restarts_all_the_same(story: Story, type_command: Type) -> None:
    story.cluster.kubectl("-n", story.namespace, "delete", "rolebinding", "log-tails")
    # The API server itself, which refuses.
    daemon = story.controllers.start(story.namespace, "--keep-log-tails")
    story.api.create("Job", story.namespace, a_job(policies=POLICIES, maxRetry=20))
    story.until_restarted()
    assert 'cannot get resource "pods/log"' in daemon.log.read_text()
    _, out, _ = type_command("why", "train")
    assert "worker-1 failed: exit code 3 in container main; its log was not kept: pods" in out


@pytest.mark.parametrize(
    ("method", "what"),
    [
        pytest.param("PATCH", f"secrets/{SECRET}", id="before the tail"),
        pytest.param("POST", "secrets", id="after the tail"),
        pytest.param("DELETE", FAILED, id="after the deletion"),
    ],
)
def test_a_controller_that_is_killed_keeps_one_tail(story: Story, method: str, what: str) -> None:
    killed: list[Call] = []

    def kill(call: Call) -> bool:
        if killed or call.method != method or not call.path.endswith(f"/{what}"):
            return True
        killed.append(call)
        story.controllers.started[0].kill()
        return False

    story.server.after = kill
    story.controllers.start(story.namespace, "--keep-log-tails", server=story.server.server)
    story.api.create("Job", story.namespace, a_job(policies=POLICIES, maxRetry=20))
    eventually("the controller is killed", lambda: killed)
    story.controllers.start(story.namespace, "--keep-log-tails", server=story.server.server)
    story.until_restarted()
    assert b"RuntimeError: bad shape" in story.kept["attempt-1.log"]
    assert story.server.asked == [FAILED]


def test_a_secret_of_another_owner_is_left_alone(story: Story) -> None:
    story.api.create("Secret", story.namespace, {"metadata": {"name": SECRET}, "data": {}})
    story.start()
    assert story.kept == {}


def test_a_command_that_restarts_the_job_replaces_the_tail(story: Story) -> None:
    """It spends no retry, so both runs are the same attempt: the newer one counts."""
    story.attempts = 0
    story.controllers.start(story.namespace, "--keep-log-tails", server=story.server.server)
    story.api.create("Job", story.namespace, a_job(policies=POLICIES, maxRetry=20))
    until_phase(story.api, story.namespace, "Running")
    send_command(story.api, story.namespace, "RestartJob")
    eventually("it is done", lambda: story.api.list("Command", story.namespace) == [])
    story.until_restarted()
    assert story.kept == {}
