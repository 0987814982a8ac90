"""Pumice from Python: runs that are submitted, found, watched, changed and removed by a program."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import pumice
from pumice.store.files.owner_lock import OwnerLock
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

pytest_plugins = ["pumice.testing"]
WAITING = "echo up $VC_TASK_INDEX; while [ ! -e go ]; do sleep 0.2; done; echo done"


@pytest.fixture(autouse=True)
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_namespaces()
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def job(script: str = "echo hello $VC_TASK_INDEX", replicas: int = 2, **fields: object) -> pumice.Job:
    task = pumice.task("w", replicas=replicas, command=["sh", "-c", script])
    return pumice.job("trial", tasks=[task], plugins={"env": []}, **fields)  # type: ignore[arg-type] # fields of a Job


def test_a_submitted_run_from_its_start_to_its_removal(pumice_client: pumice.Client, workdir: Path) -> None:
    run = pumice_client.submit(job(WAITING), note="a remark", env={"EPOCHS": "1"})
    assert (run.ref, str(run), repr(run)) == ("trial:1", "trial:1", "<Run trial:1>")
    assert run.wait("running", timeout="100s").exit_code is None
    sent = pickle.loads(pickle.dumps(run))
    assert (sent, sent.uid, sent.status().phase) == (run, run.uid, "Running")
    assert (run.status().phase, run.status().note) == (pumice.Phase.RUNNING, "a remark")
    lines = run.logs()
    assert {next(lines).text for _ in range(2)} == {"up 0", "up 1"}
    assert run.exec("w-1", ["printf", r"\377\0"]).stdout == b"\xff\0"
    done = run.exec("w-1", ["sh", "-c", "echo $EPOCHS; exit 3"])
    assert (done.returncode, done.stdout) == (3, b"1\n")
    (workdir / "data").write_text("there and back")
    assert run.copy_to("data", "w-1", "/srv") == []
    assert run.copy_from("w-1", "/srv/data", workdir / "back") == []
    assert (workdir / "back").read_text() == "there and back"
    (workdir / "data").write_text("some")
    assert run.copy_to("data", "w-1", "/tmp") == []
    assert run.copy_from("w-1", "/tmp/data", workdir / "back") == []
    assert (workdir / "back").read_text() == "some"
    assert {sample.pod for sample in run.top()} <= {"w-0", "w-1"}
    with pytest.raises(pumice.NoSuchPod, match="w-7"):
        run.kill("w-7")
    with pytest.raises(pumice.WaitTimeout, match=r"trial:1: not finished within 0\.1s"):
        run.wait(timeout=0.1)
    assert [pod.phase for pod in run.pods()] == ["Running", "Running"]
    assert run.why().code == "Running"
    assert pumice_client.runs() == [pumice_client.get("trial")] == [run]
    (workdir / "go").touch()
    assert [(line.text, line.stream, line.attempt) for line in lines] == [("done", "stdout", 1)] * 2
    result = run.wait()
    assert (result.ok, result.verdict, result.attempts) == (True, None, 1)
    assert [event.type for event in run.events()][-1] == "verdict"
    assert [(each.number, each.first_failure) for each in run.history()] == [(1, "")]
    assert {line.text for line in run.logs(pod="w-1", grep="up")} == {"up 1"}
    for options in ({"tail": -1}, {"attempt": -1}):
        with pytest.raises(pumice.InvalidOption, match="-1: must be 0 or more"):
            run.logs(**options)  # type: ignore[arg-type] # one of its options
    with pytest.raises(pumice.WrongState):
        run.kill("w-0")
    # Its process has not closed the record yet.
    while (lock := OwnerLock.take(Path(run.status().directory))) is None:
        continue
    closing = threading.Timer(0.2, lock.release)
    closing.start()
    run.remove()
    closing.join()
    for method in (run.status, run.logs, run.events, run.why):
        with pytest.raises(pumice.NoSuchRun, match="trial:1: no such run"):
            method()
    with pytest.raises(pumice.NoSuchRun):
        pumice_client.get("trial")
    with pytest.raises(pumice.NoSuchRun):
        pickle.loads(pickle.dumps(run))


def test_the_verdict_is_data(pumice_client: pumice.Client) -> None:
    terminate = pumice.Policy(event="PodFailed", action="TerminateJob")
    run = pumice_client.submit(job("[ $VC_TASK_INDEX = 0 ] && sleep 1000; echo bad >&2; exit 5", policies=[terminate]))
    with pytest.raises(pumice.RunFailed) as caught:
        run.wait(check=True)
    verdict = caught.value.result.verdict
    assert verdict is not None
    assert (verdict.pod, verdict.code, verdict.signal, verdict.line) == ("w-1", 5, None, "bad")
    assert verdict.policy is not None
    assert (verdict.policy.event, verdict.policy.action) == ("PodFailed", "TerminateJob")
    assert str(verdict).startswith("w-1 failed first: exit code 5")
    assert run.why().verdict == verdict
    assert run.history()[0].code == 5
    assert [line.stream for line in run.logs()] == ["stderr"]


def test_runs_are_stopped_suspended_and_resumed(pumice_client: pumice.Client, workdir: Path) -> None:
    run = pumice_client.submit(job(WAITING))
    run.wait("running")
    assert run.suspend().reason == "Suspended"
    assert run.why().code == "Suspended"
    run.resume()
    run.wait("running")
    result = run.stop()
    assert (result.phase, result.ok) == ("Terminated", False)
    run.remove()


def test_the_asynchronous_client(pumice_client: pumice.Client, tmp_path: Path) -> None:
    async def main() -> list[str]:
        async with pumice.AsyncClient(state=tmp_path / "state") as client:
            try:
                run = await client.submit(job())
                lines = [line.text async for line in run.logs(task="w")]
                assert (await run.wait()).ok
                assert await client.runs() == [await client.get("trial")]
                return lines
            finally:
                await client.shut_down()

    assert sorted(asyncio.run(main())) == ["hello 0", "hello 1"]


def test_it_works_under_a_running_event_loop_in_threads_and_in_forked_children(pumice_client: pumice.Client) -> None:
    async def main() -> pumice.Run:
        """Waits in the thread of the event loop."""
        run = pumice_client.submit(job())
        assert next(run.logs()).text.startswith("hello")
        return run

    run = asyncio.run(main())
    results: list[pumice.Result] = []
    threads = [threading.Thread(target=lambda: results.append(run.wait())) for _ in range(4)]
    for thread in threads:
        thread.start()
    child = os.fork()
    if child == 0:
        os._exit(0 if run.wait().ok else 1)
    for thread in threads:
        thread.join()
    assert [result.ok for result in results] == [True] * 4
    assert os.waitpid(child, 0)[1] == 0


def test_run_prints_what_the_command_prints_and_raises(
    pumice_client: pumice.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    with_warning = job(policies=[pumice.Policy(event="PodPending", action="RestartJob")])
    assert pumice_client.run(with_warning, scale={"w": 1}).ok
    out, err = capsys.readouterr()
    assert out == "w-0  hello 0\n"
    assert err.startswith("warning: spec.policies[0]: never acts: PodPending needs a timeout\n  hint: add timeout")
    assert "\n1 warning\n" in err
    assert "run trial:1 " in err
    assert "Completed" in err
    with pytest.raises(pumice.RunFailed, match="trial:2 Failed: w-0 failed first: exit code 3") as caught:
        pumice_client.run(job("exit 3", replicas=1))
    assert caught.value.result.exit_code == 3
    assert "w-0 failed first: exit code 3" in capsys.readouterr().err


def test_pods_get_the_python_of_the_program(pumice_client: pumice.Client, workdir: Path) -> None:
    (workdir / "train.py").write_text("import sys\ndef main(epochs): print(sys.prefix, epochs)\n")
    task = pumice.task("w", function="train:main", kwargs={"epochs": 2})
    run = pumice_client.submit(pumice.job("trial", tasks=[task]))
    assert [line.text for line in run.logs()] == [f"{sys.prefix} 2"]


def test_an_owned_run_stops_with_its_block_but_not_with_that_of_a_forked_child(pumice_client: pumice.Client) -> None:
    with pumice_client.start(job(WAITING)) as run:
        assert repr(run) == "<OwnedRun trial:1>"
        assert type(pickle.loads(pickle.dumps(run))) is pumice.Run
        run.wait("running")
        assert {next(run.logs()).text} <= {"up 0", "up 1"}
        child = os.fork()
        if child == 0:
            # It leaves the run to its parent.
            code = 1
            try:
                with pytest.raises(pumice.WrongState, match="trial:1 belongs to process"):
                    run.detach()
                run.__exit__(None, None, None)
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert run.status().phase == "Running"
    assert (run.status().phase, run.status().stopped) == ("Terminated", True)


def test_an_owned_run_is_restarted_by_its_policy(pumice_client: pumice.Client, workdir: Path) -> None:
    restart = pumice.Policy(event="PodFailed", action="RestartJob")
    script = "if [ -e second ]; then echo resumed; else echo first; touch second; sleep 1000; fi"
    with pumice_client.start(job(script, replicas=1, policies=[restart])) as run:
        assert next(run.logs()).text == "first"
        run.kill("w-0")
        assert run.wait(timeout=PATIENCE).attempts == 2
    assert any("resumed" in line.text for line in run.logs(attempt=2))
    first, second = run.history()
    assert (first.pod, first.signal, first.policy) == ("w-0", 9, "PodFailed: RestartJob")
    assert second.first_failure == ""


def test_a_detached_run_outlives_its_block(pumice_client: pumice.Client, workdir: Path) -> None:
    with pumice_client.start(job(WAITING)) as run:
        run.wait("running")
        run.detach()
    assert run.status().phase == "Running"
    (workdir / "go").touch()
    assert run.wait().ok


def test_an_owned_run_ends_with_the_process_but_not_with_its_forked_child(
    pumice_client: pumice.Client, workdir: Path
) -> None:
    """A child that was forked meanwhile, as by multiprocessing, does not keep it alive."""
    (workdir / "program.py").write_text(
        "import os, sys, time, pumice\n"
        "job = pumice.job('trial', tasks=[pumice.task('w', command=['sleep', '1000'])])\n"
        "run = pumice.Client(state=sys.argv[1]).start(job)\n"
        "run.wait('running')\n"
        "if os.fork() == 0:\n"
        "    os.close(1)\n"
        "    while not os.path.exists('go'): time.sleep(0.05)\n"
        "    os._exit(0)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    state = Path(pumice_client._core._environ["XDG_STATE_HOME"])
    subprocess.run([sys.executable, "program.py", state], check=False, timeout=PATIENCE)
    result = pumice_client.get("trial").wait(timeout=PATIENCE)
    (workdir / "go").touch()
    assert (result.phase, result.ok) == ("Terminated", False)


def test_a_program_ends_whatever_it_left_open(pumice_client: pumice.Client, workdir: Path) -> None:
    """Without closing the run or iterators that have not ended; what is owned ends with it."""
    (workdir / "program.py").write_text(
        "import sys, pumice\n"
        "job = pumice.job('trial', tasks=[pumice.task('w', command=['sh', '-c', 'echo up; sleep 1000'])])\n"
        "run = pumice.Client(state=sys.argv[1]).start(job)\n"
        "lines, events, unread = run.logs(), run.events(), run.logs()\n"
        "print(next(lines).text, next(events).type)\n"
    )
    state = pumice_client._core._environ["XDG_STATE_HOME"]
    words = [sys.executable, "-W", "default", "program.py", state]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "up plan\n", "")
    assert pumice_client.get("trial").wait(timeout=PATIENCE).reason == "ClientLost"


def test_ctrl_c_stops_gracefully_and_at_once_when_it_comes_again(pumice_client: pumice.Client, workdir: Path) -> None:
    (workdir / "program.py").write_text(
        "import signal, sys, pumice\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "for end in ('echo stopped; exit 0', 'echo no'):\n"
        "    script = f'trap \"{end}\" TERM; echo up; while :; do sleep 0.05; done'\n"
        "    job = pumice.job('trial', tasks=[pumice.task('w', command=['sh', '-c', script])])\n"
        "    try:\n"
        "        pumice.Client(state=sys.argv[1]).run(job)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted')\n"
    )
    state = pumice_client._core._environ["XDG_STATE_HOME"]
    with subprocess.Popen([sys.executable, "-u", "program.py", state], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        for before in (["w-0  up"], ["w-0  stopped", "interrupted", "w-0  up"], ["w-0  no"]):
            assert [program.stdout.readline().strip() for _ in before] == before
            program.send_signal(signal.SIGINT)
        assert program.stdout.read() == "interrupted\n"
    first, second = (pumice_client.get(f"trial:{number}").status().reason for number in (1, 2))
    # The second one long before the 30 seconds that the pod has to end.
    assert (first, second) == ("Interrupted", "Killed")


def test_an_interrupt_ends_the_waiting_for_a_submitted_run_only(pumice_client: pumice.Client, workdir: Path) -> None:
    run = pumice_client.submit(job(WAITING))
    run.wait("running")
    lines = run.logs()
    next(lines)
    for wait in (run.wait, lambda: list(lines), lambda: list(run.events())):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        timer = threading.Timer(0.3, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
        timer.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                wait()
        finally:
            timer.join()
            signal.signal(signal.SIGINT, before)
    assert run.status().phase == "Running"
    (workdir / "go").touch()
    assert run.wait().ok


def test_a_cancelled_run_stops_gracefully(pumice_client: pumice.Client, tmp_path: Path) -> None:
    async def main() -> str:
        async with pumice.AsyncClient(state=tmp_path / "state") as client:
            task = asyncio.create_task(client.run(job(WAITING)))
            while not (found := await client.runs(active=True)):  # noqa: ASYNC110 - another process stores it
                await asyncio.sleep(0.05)
            await found[0].wait("running")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await found[0].status()).reason

    assert asyncio.run(main()) == "Interrupted"
