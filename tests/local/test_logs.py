"""`pumice logs`: what `run` printed, in the same order, later and while the job runs, of all attempts."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fork_server import fork_server
from tests.local.running import MODULES, Manifest, Result, Workspace, job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

# The first attempt of w-1 fails, after a restart of its container.
TWICE = r"""
echo "out $VC_TASK_INDEX"; echo "err $VC_TASK_INDEX" >&2; printf '1%%\r99%%\n'; printf 'caf\303\251 \377\n'
if [ $VC_TASK_INDEX = 1 ] && [ ! -e third ]; then
    [ ! -e second ] || touch third
    touch second
    exit 3
fi
until [ -e third ]; do sleep 0.2; done
echo last
"""


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


def _logs(workspace: Workspace, *words: str, code: int = 0) -> Result:
    done = fork_server(*MODULES).run(["logs", *words], cwd=workspace.directory, env=workspace.env)
    assert done.returncode == code, (words, done)
    return Result(done.returncode, done.stdout, done.stderr)


def _twice() -> Manifest:
    worker = task("w", TWICE, replicas=2)
    worker["template"]["spec"]["restartPolicy"] = "OnFailure"
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    return job(worker, plugins={"env": []}, policies=policies, maxRetry=3)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, Result]:
    """A run in which the container of w-1 was restarted twice."""
    workspace = Workspace(tmp_path_factory.mktemp("a place"))
    result = workspace.run(_twice())
    assert result.code == 0, result
    return workspace, result


def test_logs_are_what_run_printed_on_stdout(ran: tuple[Workspace, Result]) -> None:
    workspace, result = ran
    assert "caf\N{LATIN SMALL LETTER E WITH ACUTE} \N{REPLACEMENT CHARACTER}" in result.out
    shown = _logs(workspace)
    assert shown.out == result.out
    assert shown.err == "trial:1\nw-1 restart 1\nw-1 restart 2\n"
    assert _logs(workspace, "trial:1") == Result(0, result.out, "w-1 restart 1\nw-1 restart 2\n")
    lines = result.out.splitlines(keepends=True)
    for pod in ("w-0", "trial/w-0", "@last/w-0", "trial:1/w-0"):
        assert _logs(workspace, pod).out == "".join(line for line in lines if line.startswith("w-0  "))
    assert _logs(workspace, "trial/w-0", "trial/w-1").out == result.out


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        pytest.param(["--tail", "1", "w-0"], r"w-0  last\n", id="tail"),
        pytest.param(["--tail", "0"], "", id="nothing"),
        pytest.param(["--grep", "^out", "--task", "w", "w-0"], r"w-0  out 0\n", id="grep"),
        pytest.param(["--previous", "w-1", "--grep", "^out|last"], r"w-1  out 1\n", id="the execution before"),
        pytest.param(["-c", "w", "--since", "1h", "--grep", "out 0"], r"w-0  out 0\n", id="container and since"),
        pytest.param(["--since", "0s"], "", id="since now"),
        pytest.param(["--no-prefix", "w-0", "--tail", "1", "-f"], r"last\n", id="without prefix, followed to its end"),
        pytest.param(
            ["-t", "w-0", "--grep", "out"], r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z w-0  out 0\n", id="times"
        ),
        pytest.param(["--attempt", "1", "--grep", "out 0"], r"w-0  out 0\n", id="attempt"),
    ],
)
def test_selections(ran: tuple[Workspace, Result], words: Sequence[str], shown: str) -> None:
    assert re.fullmatch(shown, _logs(ran[0], *words).out)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(["other"], "other: no such run", id="run"),
        pytest.param(["w-9"], "trial:1\nw-9: no such run, and no such pod of trial:1", id="pod"),
        pytest.param(["trial/v-0"], "trial:1/v-0: no such pod", id="pod of a run"),
        pytest.param(["trial:1/"], "trial:1/: must be RUN, TASK-INDEX or RUN/TASK-INDEX", id="neither"),
        pytest.param(["--pod", "w"], "--pod: w: must be TASK-INDEX, such as worker-0", id="no pod"),
        pytest.param(["--pod", "trial:1/w-0"], "--pod: trial:1/w-0: must be TASK-INDEX", id="pod with a run"),
        pytest.param(["trial", "--task", "v"], "--task: v: no such task of trial:1", id="task"),
        pytest.param(["trial", "-c", "v"], "--container: v: no such container of trial:1", id="container"),
        pytest.param(["trial", "--attempt", "2"], "--attempt: 2: no such attempt of trial:1", id="attempt"),
        pytest.param(["--grep", "("], "--grep: (: missing )", id="regular expression"),
        pytest.param(["--since", "soon"], "--since: soon: must be a duration", id="since"),
        pytest.param(["--attempt", "1", "--previous"], "--previous: cannot be combined with --attempt", id="both"),
        pytest.param(["-f", "--previous"], "--previous: an execution that has ended cannot be followed", id="previous"),
    ],
)
def test_what_does_not_exist(ran: tuple[Workspace, Result], words: Sequence[str], error: str) -> None:
    shown = _logs(ran[0], *words, code=2)
    assert shown.out == ""
    assert shown.err.startswith(error)


def test_json(ran: tuple[Workspace, Result]) -> None:
    found = [json.loads(line) for line in _logs(ran[0], "w-0", "--json", "--grep", "0$").out.splitlines()]
    common = {"type": "log", "run": "trial:1", "pod": "w-0", "container": "w", "attempt": 1, "restart": 0}
    assert sorted(({name: each[name] for name in each if name != "time"} for each in found), key=str) == [
        {**common, "stream": "stderr", "line": "err 0"},
        {**common, "stream": "stdout", "line": "out 0"},
    ]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:.]{15}\+00:00", each["time"]) for each in found)


@pytest.mark.parametrize("flags", [[], ["-f"], ["-t"]], ids=" ".join)
def test_a_reader_that_needs_no_more(ran: tuple[Workspace, Result], flags: Sequence[str]) -> None:
    workspace, _ = ran
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen(
        [*workspace.argv()[:3], "logs", *flags],
        cwd=workspace.directory,
        env=workspace.env,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert (process.communicate(timeout=PATIENCE)[1].partition("\nw-1")[0].strip(), process.returncode) == (
        "trial:1",
        0,
    )


def test_attempts_are_distinguished_and_runs_are_named(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    again = job(
        task("only", "echo hi; test -e once || { touch once; exit 1; }"),
        policies=[{"event": "PodFailed", "action": "RestartJob"}],
        maxRetry=3,
    )
    assert workspace.run(again).code == 0
    assert _logs(workspace) == Result(0, "only-0  hi\nonly-0  hi\n", "trial:1\nattempt 2\n")
    for words in (["--attempt", "1"], ["--attempt", "2"], ["--previous"]):
        assert _logs(workspace, "trial", *words) == Result(0, "only-0  hi\n", "")
    assert workspace.run(job(task("only", "echo second"))).code == 0
    assert _logs(workspace).out == "only-0  second\n"
    both = _logs(workspace, "trial:1", "trial:2", "--tail", "1")
    assert both == Result(0, "trial:1/only-0  hi\ntrial:2/only-0  second\n", "trial:1 attempt 2\n")


def test_following_waits_for_pods_and_ends_with_the_run(tmp_path: Path) -> None:
    """`second` does not exist before `first` has ended, and that waits for the test."""
    workspace = Workspace(tmp_path)
    first = task("first", "echo early; until [ -e go ]; do sleep 0.2; done")
    second = task("second", "echo late")
    second["dependsOn"] = {"name": ["first"], "condition": "Completed"}
    process = workspace.start(job(first, second, policies=[]), flags=["--json"])
    for line in process.stdout:
        if '"early"' in line:
            break
    server = fork_server(*MODULES)
    followers = [server.open(["logs", "-f", word], cwd=tmp_path, env=workspace.env) for word in ("second-0", "trial")]
    try:
        # It follows, and the run goes on.
        assert followers[1].stdout.readline() == "first-0   early\n"
        assert _logs(workspace).out == "first-0   early\n"
        assert followers[0].poll() is None
        (tmp_path / "go").touch()
        assert process.communicate(timeout=PATIENCE) is not None
        assert process.returncode == 0
        assert followers[0].communicate(timeout=PATIENCE) == ("second-0  late\n", "trial:1\n")
        assert followers[1].communicate(timeout=PATIENCE) == ("second-0  late\n", "")
        assert [each.returncode for each in followers] == [0, 0]
    finally:
        for each in (process, *followers):
            each.kill()
            each.communicate()


def test_a_full_disk_leaves_a_gap_and_the_log_goes_on(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    script = """
    echo before
    head -c 3M /dev/zero | tr '\\0' x | fold; echo
    touch filled; until [ -e freed ]; do sleep 0.2; done
    echo after
    """
    argv = workspace.argv(job(task("only", script)))
    workspace.state.parent.mkdir()
    outside = """
    mount -t tmpfs -o size=2m,mode=700 tmpfs state && head -c 1M /dev/zero > state/full || exit 99
    (until [ -e filled ]; do sleep 0.2; done; rm state/full; touch freed) &
    "$@" > run.out 2> run.err; code=$?
    "$1" "$2" "$3" logs > logs.out 2> logs.err || exit 98
    cp state/pumice/runs/default/trial/1/pods/only-0/1/only.0.log kept.log
    exit $code
    """
    who = [] if os.geteuid() == 0 else ["-r"]
    done = subprocess.run(
        ["unshare", *who, "-m", "sh", "-c", outside, "sh", *argv],
        cwd=tmp_path,
        env=workspace.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    messages = (tmp_path / "run.err").read_text()
    assert done.returncode == 0, (done, messages)
    assert "logs are shown but no longer written to" in messages
    # The disk may have room for a few bytes more before it is full for good: then there are several gaps.
    missing = r"\[pumice: (\d+) bytes are missing here: no space left on device\]"
    gaps = [int(number) for number in re.findall(missing, (tmp_path / "kept.log").read_text())]
    assert gaps
    warnings = (tmp_path / "logs.err").read_text()
    assert warnings.count("warning: only-0: output is missing here; its log says how much\n") == len(gaps)
    # Nothing else is missing: what stands before, between and after the gaps, and the bytes that they count.
    printed, shown = ((tmp_path / name).read_text() for name in ("run.out", "logs.out"))
    parts = re.split(rf"only-0  {missing.replace('(', '(?:')}\n", shown)
    assert len(parts) == len(gaps) + 1
    assert parts[0].startswith("only-0  before\n")
    assert parts[-1].endswith("only-0  after\n")
    # A gap may begin and end inside a line; the log then has a line more than the output.
    whole, *kept = (re.sub(r"^only-0  |\n", "", text, flags=re.MULTILINE) for text in (printed, *parts))
    assert whole.startswith(kept[0])
    assert whole.endswith(kept[-1])
    lost = len(whole) - sum(map(len, kept))
    newlines = printed.count("\n") - sum(part.count("\n") for part in parts)
    assert newlines <= sum(gaps) - lost <= newlines + len(gaps)
