"""The table of the guide on isolation, row by row against real pods, as root and as an ordinary user."""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
from pathlib import Path

from tests.local.running import Workspace, job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.meta.tree import ROOT

AS_ROOT = os.geteuid() == 0
GUIDES = ROOT / "docs" / "guides"
# The first word of a cell says what a pod finds.
CHINESE = {
    "private": "私有",
    "hidden": "不可见",
    "writable": "可写",
    "read-only": "只读",
    "refused": "拒绝",
    "reached": "可达",
    "limited": "受",
    "shown": "显示",
}
# Rows that need more than a pod have tests of their own.
ELSEWHERE = {
    "the working directory with `--workdir-read-only`": "test_consent.py::test_what_is_shared_on_purpose",
    "the Python that Pumice": "test_interpreter.py::test_the_interpreter_of_the_user_cannot_be_changed",
    "link-local and": "test_tunnel_programs.py::test_every_pod_reaches_the_outside_but_not_this_machine_nor_metadata",
    "memory, files": "test_bounds.py::test_files_in_memory_count_as_memory_and_have_a_bound",
    "inotify": "test_bounds.py::test_watches_of_files_are_left_for_the_user",
    "processes (`--pids-limit`)": "test_bounds.py::test_processes_are_limited_by_the_pod",
    "disk:": "test_bounds.py::test_disk_use_is_shown_and_can_be_bounded",
    "the log of": "../unit/store/logs/test_log_file.py::test_a_long_log_keeps_its_first_segment_and_the_newest",
}
KEYRING = """
import ctypes, platform
numbers = {"x86_64": 250, "aarch64": 219}
print("refused" if ctypes.CDLL(None).syscall(numbers[platform.machine()], 0, -4, 0) < 0 else "reached")
"""
CONNECT = """
import socket, sys
family, address = socket.AF_UNIX, sys.argv[1]
if len(sys.argv) > 2:
    family, address = socket.AF_INET, (sys.argv[1], int(sys.argv[2]))
with socket.socket(family) as client:
    try:
        client.connect(address)
        print("reached")
    except OSError:
        print("refused")
"""
LISTEN = "import socket; s = socket.create_server(('0.0.0.0', 7000)); print('up', flush=True); s.accept()"
# Each prints the word. HOME is the working directory, which has credentials; DATA is outside.
PROBES = {
    "programs and settings": "echo x > /etc/pumice-probe && test -x /usr/bin/env && echo private",
    # Host keys are the pod's own key under each name; those of this machine differ from each other.
    "keys and passwords": "{ find /etc/ssh /etc/ssl/private /etc/*shadow- /etc/gshadow /var/lib/docker -type f"
    " -size +0 ! -name 'ssh_host_*_key' -readable 2>/dev/null | grep -E 'key$|shadow|docker';"
    " for key in /etc/ssh/ssh_host_*_key; do"
    " [ ! -r $key ] || cmp -s $key /etc/ssh/ssh_host_ed25519_key || echo $key; done; }"
    " | grep . || echo hidden",
    "data directories": "cat DATA/canary /root/.profile /root/.bashrc 2>/dev/null | head -1 | grep . || echo hidden",
    "the working directory": "touch HOME/probe && echo writable",
    "credentials in it": "cat HOME/.ssh/id 2>/dev/null || echo hidden",
    "`hostPath` volumes": "touch /v/probe && echo writable",
    "the Python environments": "touch PREFIX/probe 2>/dev/null || echo read-only",
    "`/tmp`, `/var/tmp`": "touch /tmp/probe /var/tmp/probe /run/probe /dev/shm/probe && echo private",
    "kernel settings": "sh -c 'cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness' 2>/dev/null || echo read-only",
    "processes of the machine": "ls /proc | grep -cE '^[0-9]+$' | grep -qE '^[0-9]$' && echo hidden",
    "kernel keyrings": 'PYTHON -c "$KEYRING"',
    "Unix sockets": 'cd HOME && PYTHON -c "$CONNECT" s',
    "other pods": 'for n in $(seq 100); do PYTHON -c "$CONNECT" trial-other-0.trial 7000 | grep reached && exit;'
    " sleep 1; done",
    "`127.0.0.1` of": 'PYTHON -c "$CONNECT" 127.0.0.1 PORT',
}


def rows(page: Path) -> list[tuple[str, str, str]]:
    """The cells of the page's table with three columns that follows its first heading."""
    text = page.read_text(encoding="utf-8").partition("\n## ")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    cells = [tuple(cell.strip() for cell in re.split(r" \| ", line.strip("| "))) for line in lines]
    return [(what, user, root) for what, user, root in cells]


def test_each_row_has_a_probe_or_a_test() -> None:
    known = [*PROBES, *ELSEWHERE]
    names = [what for what, _, _ in rows(GUIDES / "isolation-and-network.md")]
    assert [name for name in names if not any(name.startswith(each) for each in known)] == []
    assert [each for each in known if not any(name.startswith(each) for name in names)] == []
    for path in ELSEWHERE.values():
        file, _, test = path.partition("::")
        assert f"def {test}(" in (ROOT / "tests" / "local" / file).read_text()


def test_the_chinese_table_says_the_same() -> None:
    english, chinese = rows(GUIDES / "isolation-and-network.md"), rows(GUIDES / "zh" / "isolation-and-network.md")
    assert len(english) == len(chinese)
    for ours, theirs in zip(english, chinese, strict=True):
        for cell, translated in zip(ours[1:], theirs[1:], strict=True):
            word = re.split(r"[ :;,]", cell)[0]
            assert translated.startswith(CHINESE[word]) or CHINESE[word] in translated, (cell, translated)


def test_pods_find_what_the_table_says(tmp_path: Path) -> None:
    """All probes are containers of one pod that run one after another; another pod listens."""
    need_namespaces()
    home, data, volume = tmp_path / "home", tmp_path / "data", tmp_path / "volume"
    for directory in (home / ".ssh", data, volume):
        directory.mkdir(parents=True)
    (home / ".ssh" / "id").write_text("canary\n")
    (data / "canary").write_text("canary\n")
    workspace = Workspace(home)
    here = Path.cwd()
    os.chdir(home)
    try:
        with socket.socket(socket.AF_UNIX) as unix, socket.create_server(("127.0.0.1", 0)) as loopback:
            unix.bind("s")
            unix.listen()
            names = {
                "HOME": str(home),
                "DATA": str(data),
                "PREFIX": sys.prefix,
                "PYTHON": sys.executable,
                "PORT": str(loopback.getsockname()[1]),
            }
            script = "".join(f"echo '{what}'; ({probe}); " for what, probe in PROBES.items())
            script = re.sub(rf"\b({'|'.join(names)})\b", lambda match: shlex.quote(names[match[1]]), script)
            env = [{"name": "KEYRING", "value": KEYRING}, {"name": "CONNECT", "value": CONNECT}]
            mounts = [{"name": "v", "mountPath": "/v"}]
            pod = {"volumes": [{"name": "v", "hostPath": {"path": str(volume)}}]}
            other = task("other", "", container={"command": [sys.executable, "-c", LISTEN]})
            only = task("only", script, container={"env": env, "volumeMounts": mounts}, pod=pod)
            policy = {"event": "TaskCompleted", "action": "CompleteJob"}
            only["policies"] = [policy]
            result = workspace.run(job(only, other, plugins={"svc": []}), flags=["--network=job"])
    finally:
        os.chdir(here)
    lines = [line.removeprefix("only-0   ") for line in result.out.splitlines() if line.startswith("only-0")]
    found = dict(zip(lines[::2], lines[1::2], strict=True))
    column = 2 if AS_ROOT else 1
    for row in rows(GUIDES / "isolation-and-network.md"):
        for name, word in found.items():
            if row[0].startswith(name) and not any(row[0].startswith(each) for each in ELSEWHERE):
                assert row[column].startswith(word), (name, word, result.out, result.err)
    assert set(found) == set(PROBES), (result.out, result.err)
    for path in ("/etc/pumice-probe", "/tmp/probe", "/run/probe", "/dev/shm/probe"):
        assert not Path(path).exists()
    assert (home / "probe").exists()
    assert (volume / "probe").exists()
