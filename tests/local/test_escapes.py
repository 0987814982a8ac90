"""Attacks on this machine from inside of pods, as a table. A row is a pod; few Jobs run all of them.

An attack harms nothing: it reads a canary that the test has planted, or writes the value that is there already. To add
one, add a row to the list of the Job that it belongs to: what the pod runs, what its manifest adds, and all that it may
print. A pod that must not even start names the text of the refusal.

As root, `make test` runs this file twice: as root, whose mistakes cost the machine, and as an ordinary user. Attacks on
consent, by a Job or a pumice.toml that names credentials, are in test_consent.py; those by addresses in
test_tunnel_programs.py.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
import re
import shlex
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pumice.client.run_options.kinds import Source, mount
from pumice.engines.local.sandbox.client import Sandbox
from pumice.engines.local.sandbox.init.seccomp import is_known, read_calls
from pumice.engines.local.sandbox.sandbox_errors import StartError
from pumice.engines.local.sandbox.specs import Mount, SandboxOptions
from pumice.model.problem import Position
from pumice.store.files.remove_tree import remove_tree
from pumice.store.run_errors import InvalidOption
from tests.local.commands import Terminal, open_terminal
from tests.local.roots import small_root
from tests.local.running import Workspace, job, task
from tests.local.sandbox.boxes import Box, in_box, need_namespaces, python_mounts, run
from tests.patience import PATIENCE
from tests.unit.cli.screens import OnTerminal
from tests.unit.store.code.repositories import git, make_repository

AS_ROOT = os.geteuid() == 0
Manifest = dict[str, Any]


@dataclass(frozen=True)
class Attack:
    """`prints` matches all that the pod prints, `refused` the reason why it does not start."""

    name: str
    script: str = "echo started"
    prints: str = ""
    refused: str = ""
    container: Manifest = field(default_factory=dict)
    pod: Manifest = field(default_factory=dict)
    user: str = ""  # "root" or "ordinary": the only kind of user that the attack is for

    @property
    def applies(self) -> bool:
        return self.user in ("", "root" if AS_ROOT else "ordinary")


@pytest.fixture(autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def outcomes(workspace: Workspace, attacks: Sequence[Attack], flags: Sequence[str] = ()) -> list[str]:
    """Run the attacks as pods of one Job; return a line for each that did something else than it may."""
    rows = [each for each in attacks if each.applies]
    tasks = [task(each.name, each.script, container=each.container, pod=each.pod) for each in rows]
    result = workspace.run(job(*tasks, minAvailable=1), flags=["--json", "--network=job", *flags])
    assert result.out, result.err
    lines, reasons = defaultdict[str, list[str]](list), dict[str, str]()
    for event in map(json.loads, result.out.splitlines()):
        name = str(event.get("pod", "")).removesuffix("-0")
        if event["type"] == "log":
            lines[name].append(event["line"])
        elif event["type"] == "pod" and event["phase"] == "Failed":
            reasons[name] = f"{event.get('reason', '')}: {event.get('line', '')}"
    wrong = []
    for each in rows:
        text, reason = "\n".join(lines[each.name]), reasons.get(each.name, "started")
        if not re.fullmatch(each.prints, text) or not re.search(each.refused, reason):
            wrong.append(f"{each.name}: {reason}; it printed {text!r}")
    return wrong


def containers(numbers: range, manifest: Callable[[str], Manifest]) -> Manifest:
    """A pod with a container for each descriptor, which starts only if the descriptor leads somewhere."""
    default = {"image": "none", "command": ["echo", "started"]}
    return {"containers": [{"name": f"fd{n}", **default, **manifest(f"/proc/self/fd/{n}")} for n in numbers]}


def mounted_at(path: str) -> Manifest:
    return {"volumeMounts": [{"name": "v", "mountPath": f"{path}/new"}]}


# CVE-2024-21626: a descriptor that is still open while a path of the job is looked up leads out of the pod.
DESCRIPTORS = (
    *(
        Attack(
            f"workdir-{first}",
            pod=containers(range(first, first + 50), lambda path: {"workingDir": path}),
            refused="StartError: .* working directory",
        )
        for first in range(0, 200, 50)
    ),
    Attack(
        "targets",
        pod={**containers(range(3, 60), mounted_at), "volumes": [{"name": "v", "emptyDir": {}}]},
        refused="StartError: .*the mount point cannot be created",
    ),
    Attack(
        "commands",
        pod=containers(range(3, 60), lambda path: {"command": [f"{path}/self/exe", "--version"]}),
        refused="StartError: .*no such file",
    ),
)


# What a filter must refuse, one after the other, with arguments that do nothing; prints those that get other answers.
CALLS = """
import ctypes, json, os, sys
call = ctypes.CDLL(None, use_errno=True).syscall
expected = int(sys.argv[1])
for name, number in json.loads(sys.argv[2]).items():
    if call(number, *[ctypes.c_long(-1)] * 6) >= 0 or ctypes.get_errno() != expected:
        print(name)
"""
SET_ID = """
import ctypes, os, sys
call, numbers = ctypes.CDLL(None, use_errno=True).syscall, sys.argv[1:]
open("plain", "w").close()
attempts = {
    "chmod": lambda: os.chmod("plain", 0o4755),
    "group": lambda: os.chmod("plain", 0o2755),
    "fchmod": lambda: os.fchmod(os.open("plain", os.O_RDONLY), 0o4755),
    "fchmodat2": lambda: call(452, -100, b"plain", ctypes.c_long(0o4755), ctypes.c_long(0)),
    "open": lambda: os.open("opened", os.O_CREAT | os.O_WRONLY, 0o4755),
    "mknod": lambda: os.mknod("made", 0o104755),
    "temporary": lambda: os.link(f"/proc/self/fd/{os.open('.', os.O_TMPFILE | os.O_RDWR, 0o4755)}", "linked"),
}
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError:
        pass
    for path in ("plain", "opened", "made", "linked"):
        if os.path.exists(path) and os.stat(path).st_mode & 0o6000:
            print(name, path)
            os.chmod(path, 0o644)
os.chmod("plain", 0o1777)
print("sticky", oct(os.stat("plain").st_mode))
"""
# A root that is effective on the machine, which file capabilities would give to everyone.
FILE_CAPABILITY = """
import os, struct
open("capable", "w").close()
try:
    os.setxattr("capable", "security.capability", struct.pack("<IIIII", 0x2000001, 1 << 7, 0, 0, 0))
    print("set")
except OSError as error:
    print("refused")
"""
MOUNTS = r"""
import re
for line in open("/proc/self/mountinfo"):
    fields, _, kind = line.partition(" - ")
    point, options = fields.split()[4:6]
    missing = {"nosuid", "nodev"} - set(options.split(",")) - ({"nodev"} if kind.startswith("devpts ") else set())
    if "rw" in options.split(",") and missing:
        print(point, *missing)
"""
MASKED = " ".join(f"/proc/{name}" for name in ("keys", "key-users", "slabinfo", "vmallocinfo", "kpageflags", "kcore"))


def python(program: str, *arguments: str) -> Manifest:
    return {"command": ["python3", "-c", program, *arguments]}


def secured(**context: Any) -> Manifest:
    return {"securityContext": context}


def status(*fields: str) -> str:
    return f"grep -E '^({'|'.join(fields)}):' /proc/self/status"


def calls(answer: int, numbers: Mapping[str, int]) -> Manifest:
    return python(CALLS, str(answer), json.dumps(numbers))


def opens(*arguments: int) -> str:
    """Open a socket; print nothing, or the last line of the error."""
    return f"python3 -c 'import socket; socket.socket(*{arguments})' 2>&1 | tail -n 1"


CALL_GROUPS = read_calls(os.uname().machine) if is_known(os.uname().machine) else {}
# The kernel asks no filter for `uprobe`, which serves only traps that the kernel has set itself.
REFUSED_CALLS = {name: number for name, number in CALL_GROUPS.get("refused", {}).items() if name != "uprobe"}
UNKNOWN_CALLS = {str(number): number for number in (511, 600, 1 << 30, (1 << 30) + 39)}
# The only one of this group that does not answer as the kernel would: C libraries then use clone.
PRIVILEGED_CALLS = {name: number for name, number in CALL_GROUPS.get("privileged", {}).items() if name != "clone3"}
LIFTED = secured(privileged=True, allowPrivilegeEscalation=True, seccompProfile={"type": "Unconfined"})
RESTRICTIONS = (
    Attack("calls", container=calls(errno.ENOSYS, REFUSED_CALLS)),
    Attack("lifted", container=calls(errno.ENOSYS, REFUSED_CALLS) | LIFTED),
    Attack("unknown-calls", container=calls(errno.ENOSYS, UNKNOWN_CALLS)),
    Attack("privileged-calls", container=calls(errno.EPERM, PRIVILEGED_CALLS)),
    Attack("vsock", opens(40), "OSError: .*not supported.*"),
    Attack("ciphers", opens(38, 5), "OSError: .*not supported.*"),
    Attack("packets", opens(17, 3), "PermissionError: .*"),
    Attack("raw", opens(2, 3, 1), "PermissionError: .*"),
    Attack("raw-dropped", opens(2, 3, 1), "PermissionError: .*", container=secured(capabilities={"drop": ["NET_RAW"]})),
    Attack("raw-added", opens(2, 3, 1), container=secured(capabilities={"add": ["NET_RAW"]})),
    Attack("namespaces", "unshare -Ur true 2>/dev/null || cat /proc/sys/user/max_user_namespaces", "0"),
    Attack("set-id", container=python(SET_ID), prints="sticky 0o101777"),
    Attack("file-capability", container=python(FILE_CAPABILITY), prints="refused", user="root"),
    Attack("masked", f"cat {MASKED} 2>/dev/null | wc -c", "0"),
    Attack("mounts", container=python(MOUNTS)),
    Attack("no-new-privileges", status("NoNewPrivs"), "NoNewPrivs:\t1"),
    Attack("no-lifted-privileges", status("NoNewPrivs"), "NoNewPrivs:\t1", container=LIFTED),
    Attack(
        "drop-all",
        status("CapEff", "CapPrm", "CapBnd"),
        "CapPrm:\t0+\nCapEff:\t0+\nCapBnd:\t0+",
        container=secured(capabilities={"drop": ["ALL"]}),
    ),
    Attack(
        "drop-some",
        "chroot / echo kept 2>/dev/null; true",
        container=secured(capabilities={"drop": ["CAP_SYS_CHROOT"]}),
    ),
    Attack(
        "read-only-root",
        "for path in / /etc /usr /var /opt; do touch $path/new 2>/dev/null && echo $path; done; touch here",
        container=secured(readOnlyRootFilesystem=True),
    ),
)


# Lifts a limit in a hierarchy of either version that it mounts in namespaces of its own.
LIFT = r"""
unshare -Urm sh -c '
    echo nested
    mount -t cgroup -o memory none /mnt && echo 1099511627776 > /mnt/memory.limit_in_bytes && echo lifted
    mount -t cgroup2 none /mnt && echo max > /mnt/memory.max && echo lifted
' 2>/dev/null
true
"""
OWNERS = "id -u; stat -c %u /usr /etc/passwd $PWD /root | sort -u; touch mine; stat -c %u mine"
OTHERS = "touch mine-1234; chown 1234:4321 mine-1234; stat -c %u:%g mine-1234"
LIMITED: Manifest = {"resources": {"limits": {"memory": "64Mi"}}}
ROOTS = (
    Attack("ids", "cat /proc/self/uid_map /proc/self/gid_map | tr -s ' ' | cut -d' ' -f2,3 | sort -u", "0 2147483648"),
    Attack("owners", OWNERS, "0\n0\n0"),
    Attack("others", OTHERS, "1234:4321"),
    Attack("limits", LIFT, container=LIMITED),
    Attack("cgroup", "cut -d: -f3 /proc/self/cgroup | sort -u", "/", container=LIMITED),
    Attack("settings", "find /proc/sys/kernel /proc/sys/vm /proc/sys/fs -type f -writable"),
)


@pytest.mark.skipif(not AS_ROOT, reason="only a pod of root could be root of the machine")
def test_root_of_a_pod_is_not_root_of_the_machine(workspace: Workspace) -> None:
    """It is root of its own files and of what is mounted, where its files are those of the machine's root."""
    assert outcomes(workspace, ROOTS) == []
    owners = {name: (workspace.directory / name).stat().st_uid for name in ("mine", "mine-1234")}
    assert owners == {"mine": 0, "mine-1234": 1234}


@pytest.mark.skipif(not AS_ROOT, reason="only root has ids to map")
def test_a_file_system_without_mapped_ids_is_said_and_the_job_runs(tmp_path: Path) -> None:
    """As on NFS: root of a pod is root of the machine, and gains no privileges."""

    async def story() -> None:
        sandbox = await Sandbox.start("unmapped", tmp_path, SandboxOptions(shared=["/proc"]))
        made = Box(sandbox)
        try:
            assert sandbox.unmapped.startswith("the file system of /proc does not support it")
            await made.pod("a")
            script = (
                "cat /proc/self/uid_map | tr -s ' '; grep NoNewPrivs /proc/self/status; unshare -U true || echo refused"
            )
            code, text = await made.shell("a", f"exec 2>/dev/null; {script}")
            assert (code, text.strip()) == (0, "0 0 4294967295\nNoNewPrivs:\t1\nrefused")
            script = "grep NoNewPrivs /proc/self/status; cat /proc/sys/net/ipv4/ping_group_range"
            code, text = await made.shell("a", script, confined=False)
            assert (code, text.split()) == (0, ["NoNewPrivs:", "1", "0", "2147483647"])
        finally:
            await sandbox.close()
            made.close()

    run(story())


def test_only_a_flag_allows_nested_namespaces(workspace: Workspace) -> None:
    """Root of a pod, who is root of mounted directories, then sets no attributes of files, which could be forged."""
    attribute = "import os; os.setxattr('/proc/self/cwd', 'security.capability', bytes(20))"
    script = f"""
    unshare -Urmuf sh -c 'mount -t tmpfs none /mnt && hostname inner && id -u && hostname'
    python3 -c "{attribute}" 2>&1 | grep -o 'not supported'
    true
    """
    result = workspace.run(
        job(task("only", script)), flags=["--allow-nested-namespaces", "--network=job", "--no-prefix"]
    )
    assert (result.code, result.out) == (0, "0\ninner\n" + ("not supported\n" if AS_ROOT else "")), result.err


@pytest.mark.parametrize(
    "attacks", [pytest.param(DESCRIPTORS, id="descriptors"), pytest.param(RESTRICTIONS, id="restrictions")]
)
def test_no_attack_reaches_the_machine(workspace: Workspace, attacks: Sequence[Attack]) -> None:
    assert outcomes(workspace, attacks) == []


SYSTEM = ("/", "/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/boot", "/home", "/var", "/tmp")


@pytest.mark.parametrize("way", ["hostPath", "--mount", "pumice.toml"])
def test_a_directory_of_the_system_is_not_mounted(way: str, workspace: Workspace) -> None:
    (workspace.directory / "link").symlink_to("/")
    paths = [*SYSTEM, "/proc/self/root", "/proc/self/fd/0", str(workspace.directory / "link")]
    only = task("only", "true")
    flags = []
    if way == "hostPath":
        named = {f"v{number}": path for number, path in enumerate(paths)}
        pod = only["template"]["spec"]
        pod["volumes"] = [{"name": name, "hostPath": {"path": path}} for name, path in named.items()]
        pod["containers"][0]["volumeMounts"] = [{"name": name, "mountPath": f"/{name}"} for name in named]
    elif way == "--mount":
        flags = ["--mount", "/:ro"]
        for path in paths:
            with pytest.raises(InvalidOption, match="which pods do not get"):
                mount(path, Source(Position(option="mount"), workspace.directory))
    else:
        (workspace.directory / "pumice.toml").write_text('[mounts]\npaths = ["/proc/self/root:ro"]\n')
    result = workspace.run(job(only), flags=flags)
    refusals = result.err.count("is a directory of the system, which pods do not get")
    assert (result.code, refusals) == (2, len(paths) if way == "hostPath" else 1), result.err


@pytest.mark.parametrize("directory", ["/", "/tmp", "/etc"])
def test_a_working_directory_of_the_system_is_left_out(tmp_path: Path, directory: str) -> None:
    """The pods run without it, and a hint says what to do. Not even `/..` leads to the machine."""
    (tmp_path / "canary").write_text("canary")
    (tmp_path / "job").mkdir()
    workspace = Workspace(tmp_path / "job", cwd=directory)
    paths = [f"{root}{tmp_path}/canary" for root in ("", "/..", "/proc/1/root/..", "/proc/self/cwd/../..")]
    result = workspace.run(job(task("only", f"cat {' '.join(paths)} 2>/dev/null; pwd")), flags=["--no-prefix"])
    assert (result.code, result.out) == (0, f"{directory}\n"), result.err
    assert f"the working directory is not shared: {directory} is a directory of the system" in result.err
    assert "hint: change to a directory of your own, or name one with --mount PATH" in result.err


SWAP = """
import ctypes
swap = ctypes.CDLL(None).syscall
print("swapping", flush=True)
while True:
    swap({renameat2}, -100, b"/claim/sub", -100, b"/claim/link", 2)
"""
RENAMEAT2 = {"x86_64": 316, "aarch64": 276, "riscv64": 276, "ppc64le": 357, "s390x": 347}


@in_box
async def test_a_link_swapped_in_for_a_sub_path_is_not_mounted(box: Box, tmp_path: Path) -> None:
    """CVE-2021-25741: 200 pods mount a part of a claim while another swaps that part with a link to the host."""
    claim, secret = tmp_path / "claim", tmp_path / "secret"
    for directory, text in ((claim / "sub", "inside"), (secret, "canary")):
        directory.mkdir(parents=True)
        (directory / "file").write_text(text)
    (claim / "link").symlink_to(secret)
    part = Mount(str(claim / "sub"), "/part", volume=str(claim))

    async def start(pod: str) -> str:
        await box.pod(pod)
        try:
            return (await box.shell(pod, "cat /part/file", mounts=(part,)))[1]
        except StartError as error:
            return error.message

    await box.pod("swapper")
    swap = SWAP.format(renameat2=RENAMEAT2[os.uname().machine])
    argv, claimed = (sys.executable, "-ISuc", swap), Mount(str(claim), "/claim")
    swapper = await box.start(box.spec("swapper", *argv, mounts=(*python_mounts(), claimed)))
    assert await swapper.line() == "swapping"
    seen = Counter(await asyncio.gather(*(start(f"victim-{number}") for number in range(200))))
    refused = "/part: subPath sub: has a symbolic link, which is not followed"
    assert set(seen) <= {"inside", refused}, seen


LINKS = """
cd {project}
if [ -e swapped ]; then
    cat /sub/part/file
else
    mv sub old
    ln -s {secret} sub
    touch swapped
    exit 1
fi
"""
TOML = {
    "mounts": '"/sub" = "./sub"',
    "files": '"nowhere" = { "/sub/part/file" = "./sub/part/file" }',
    "images": '"nowhere" = "./sub"',
}


@pytest.mark.parametrize("way", ["hostPath", "subPath", *TOML])
def test_a_link_that_a_pod_makes_is_not_followed_by_the_next(way: str, tmp_path: Path) -> None:
    """Consent and checks are for where a path led before the first pod ran, not for where a pod lets it lead."""
    workspace = Workspace(tmp_path / "project")
    secret, sub = tmp_path / "secret", workspace.directory / "sub"
    for directory, text in ((sub, "inside"), (secret, "canary")):
        part = directory / "sub/part" if way == "images" else directory / "part"
        part.mkdir(parents=True)
        (part / "file").write_text(f"{text}\n")
        if way == "images":
            small_root(directory, {name: name for name in ("sh", "cat", "mv", "ln", "touch")})
    only = task("only", LINKS.format(project=workspace.directory, secret=secret))
    pod = only["template"]["spec"]
    if way in TOML:
        (workspace.directory / "pumice.toml").write_text(f"[{way}]\n{TOML[way]}\n")
    else:
        mount = {"mountPath": "/sub"} if way == "hostPath" else {"mountPath": "/sub/part", "subPath": "part"}
        pod["volumes"] = [{"name": "v", "hostPath": {"path": str(sub)}}]
        pod["containers"][0]["volumeMounts"] = [{"name": "v", **mount}]
    again = [{"event": "PodFailed", "action": "RestartJob"}]
    result = workspace.run(job(only, policies=again, maxRetry=2), flags=["--network=job", "--no-prefix"])
    # An image stays what it was for the first pod.
    assert result.out == ("inside\n" if way == "images" else ""), result.err
    assert way == "images" or re.search("StartError.*symbolic link.*not followed", result.err), result.err


# What a pod writes to the repository in its working directory: programs that git would start, and ways to other files.
PLANTED = {
    "programs": """
cat >> .git/config <<END
[core]
  fsmonitor = "touch '{canary}'; false"
  hooksPath = .git/planted
[filter "x"]
  clean = "touch '{canary}'; cat"
  smudge = "touch '{canary}'; cat"
[diff "x"]
  textconv = "touch '{canary}'; cat"
  command = "touch '{canary}'; true"
[diff]
  external = "touch '{canary}'; true"
END
mkdir .git/planted
for hook in post-checkout post-index-change pre-auto-gc reference-transaction; do
  printf '#!/bin/sh\\ntouch "%s"\\n' '{canary}' | tee .git/hooks/$hook > .git/planted/$hook
  chmod +x .git/hooks/$hook .git/planted/$hook
done
echo '*.py filter=x diff=x' > .gitattributes
""",
    "worktree": "printf '[core]\\nworktree = {secret}\\n' >> .git/config",
    "file": "mv .git old; echo 'gitdir: {secret}/.git' > .git",
    "directory": "mv .git old; ln -s '{secret}/.git' .git",
    "links": """
mv .git/objects .git/mine; ln -s '{secret}/.git/objects' .git/objects
rm .git/HEAD; ln -s '{secret}/.git/HEAD' .git/HEAD
mv .git/index .git/old; ln -s '{secret}/.git/index' .git/index
ln -s '{secret}/secret.py' link.py; ln -s '{secret}' directory; rm train.py; ln -s '{secret}/secret.py' train.py
mkdir .git/info -p; rm -f .git/info/exclude; ln -s '{secret}/secret.py' .git/info/exclude
ln -s '{secret}/secret.py' .gitignore; ln -s '{secret}/secret.py' .pumiceignore
""",
    "names": r"""
ln -s "$(printf '\377')" link.py; touch "$(printf '.env\377')"
rm -f .gitignore; mkfifo pipe.py .pumiceignore .gitignore
mkdir -p "$(printf 'more\377/.git')"; deep=$(printf 'd/%.0s' $(seq 400))
(for part in 1 2; do mkdir -p $deep; cd -P $deep; done)
printf '%60000s' worktree >> .git/config
""",
    "objects": """
echo '{secret}/.git/objects' > .git/objects/info/alternates
cp '{commit}' .git/refs/heads/main 2>/dev/null || echo {id} > .git/refs/heads/main
""",
}


@pytest.mark.needs("git")
@pytest.mark.parametrize("plant", PLANTED)
def test_what_a_pod_plants_in_a_repository_is_not_obeyed(
    plant: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The next `run`, `submit` and `get --code` start no program of it, and copy nothing that it leads to."""
    # pytest cannot remove directories as deep as a pod can make them.
    request.addfinalizer(partial(remove_tree, tmp_path))
    secret = make_repository(tmp_path / "other files" / "secret", {"secret.py": "the canary\n"})
    with open_terminal(tmp_path / "a project") as terminal:
        project, canary = terminal.workspace.directory, tmp_path / "a project" / "started"
        make_repository(project, {"train.py": "mine\n", ".gitignore": "state\n.config\n"})
        commit = git(secret, "rev-parse", "HEAD").strip()
        script = PLANTED[plant].format(canary=canary, secret=secret, commit=secret / ".git/refs/heads/main", id=commit)
        terminal("run", terminal.workspace.write(job(task("plant", script))), "--network=job")
        harmless = terminal.workspace.write(job(task("next", "true")))
        terminal("run", harmless, "--network=job")
        run = terminal("submit", harmless, "--network=job").out.strip()
        terminal("wait", run)
        frozen = terminal("run", harmless, "--network=job", "--snapshot")
        assert frozen.code == 0, frozen.err
        results = [terminal("get", f"trial:{number}", "--code", f"state/{number}", code=None) for number in (2, 3)]
        if plant == "names":
            assert [result.code for result in results] == [2, 2], results
            assert all(r"link.py leads to '\udcff'" in result.err for result in results), results
        if plant == "programs":
            # Nothing of it is lost, and it is what it was.
            assert [result.code for result in results] == [0, 0], results
            assert (project / "state" / "3" / "train.py").read_text() == "mine\n"
            assert not canary.exists()
            with suppress(subprocess.CalledProcessError):  # as one of them answers nonsense
                git(project, "status")
            assert canary.exists(), "git itself does not start it either"
        assert not canary.exists() or plant == "programs"
        copied = [
            path for path in (project / "state").rglob("snapshot/**/*") if path.is_file() and not path.is_symlink()
        ]
        assert (project / "state/pumice/runs/default/trial/4/snapshot/job.yaml") in copied
        assert not [path for path in copied if b"canary" in path.read_bytes() and path.name != "job.yaml"]
        for path in (*(project / "state").rglob("code.json"), *(project / "state").glob("[0-9]/**/*")):
            assert not path.is_symlink()
            assert not path.is_file() or b"canary" not in path.read_bytes(), path
            assert not path.is_file() or base64.b64encode(b"the canary\n") not in path.read_bytes(), path
        assert (secret / "secret.py").read_text() == "the canary\n"


UNCONFINED = (
    Attack("calls", container=calls(errno.ENOSYS, {"keyctl": REFUSED_CALLS.get("keyctl", 0)}), prints="keyctl"),
    Attack("privileges", status("NoNewPrivs"), "NoNewPrivs:\t0"),
    Attack("asked", status("NoNewPrivs"), "NoNewPrivs:\t1", container=secured(allowPrivilegeEscalation=False)),
    Attack("raw", opens(2, 3, 1), "PermissionError: .*"),
    Attack("namespaces", "unshare -Ur true 2>/dev/null || echo refused", "refused"),
)


def test_only_a_flag_lifts_the_filter(workspace: Workspace) -> None:
    """And lets programs gain privileges, unless the Job says that they do not."""
    assert outcomes(workspace, UNCONFINED, ["--unconfined"]) == []


@pytest.mark.parametrize("field", ["seccompProfile", "appArmorProfile"])
def test_a_profile_that_this_machine_does_not_have_is_refused(field: str, workspace: Workspace) -> None:
    profile = {field: {"type": "Localhost", "localhostProfile": "strict.json"}}
    result = workspace.run(job(task("only", "true", container=secured(**profile))))
    assert result.code == 2
    assert f"securityContext.{field}: the profile strict.json is not on this machine" in result.err


# What a pod does while a user enters it or copies files: it makes its directories lead to the canary of the machine, as
# fast as it can, and its terminals and devices whatever it can make of them.
SWAPS = """
cd /srv && mkdir -p data/sub swapped && echo own > data/sub/file && ln -s {outside} swapped/sub && ln -s {outside} away
echo up
while [ ! -e {outside}/go ]; do
    mv data kept && mv swapped data && mv data swapped && mv kept data
done
"""


@dataclass(frozen=True)
class Entry:
    """A command of the user, and what must not happen: `out` matches all that it prints."""

    name: str
    words: tuple[str, ...]
    out: str = ""
    code: int | None = None


ENTRIES = [
    Entry("copies-a-link-that-leads-outside", ("cp", "hostile-0:/srv/away", "taken"), code=2),
    Entry("copies-through-proc", ("cp", "hostile-0:/proc/1/root/../../../{outside}", "taken"), code=2),
    Entry("copies-a-tree-that-is-swapped", ("cp", "hostile-0:/srv", "taken")),
    Entry("copies-into-a-link", ("cp", "plain-file", "hostile-0:/srv/away/canary"), code=2),
    Entry("copies-into-a-tree-that-is-swapped", ("cp", "plain-file", "hostile-0:/srv/data/sub/canary")),
    Entry("copies-to-sysrq", ("cp", "plain-file", "hostile-0:/proc/sysrq-trigger"), code=2),
    Entry("reads-the-canary", ("exec", "hostile-0", "--", "cat", "{outside}/canary"), code=1),
    Entry(
        "has-only-its-own-streams",
        ("exec", "hostile-0", "--", "sh", "-c", "for each in 0 1 2; do readlink /proc/self/fd/$each; done"),
        out=r"(pipe:\[\d+\]\n){3}",
        code=0,
    ),
    Entry(
        "has-no-more-rights",
        (
            "exec",
            "hostile-0",
            "--",
            "sh",
            "-c",
            "grep -h -e CapEff -e Seccomp: -e NoNewPrivs /proc/1/status /proc/self/status",
        ),
        out=r"(?P<same>CapEff:.*\nNoNewPrivs:.*\nSeccomp:\t2\n)(?P=same)",
        code=0,
    ),
]


def test_a_hostile_pod_gains_nothing_from_a_user_who_enters_it(tmp_path: Path) -> None:
    here, outside = tmp_path / "here", tmp_path / "outside"
    for directory in (here, outside):
        directory.mkdir()
    (outside / "canary").write_text("sings")
    (here / "plain-file").write_text("planted")
    terminal = Terminal(here)
    process = terminal.workspace.start(job(task("hostile", SWAPS.format(outside=outside))), flags=["--network=job"])
    terminal.until(lambda: terminal("logs", "trial", code=None).out.endswith("up\n"))
    wrong = []
    for entry in ENTRIES:
        done = terminal(*(word.format(outside=outside) for word in entry.words), code=None)
        if entry.code not in (None, done.code) or (entry.out and not re.fullmatch(entry.out, done.out)):
            wrong.append(f"{entry.name}: {done}")
        leaked = [str(path) for path in here.rglob("*") if path.is_file() and b"sings" in path.read_bytes()]
        wrong += [f"{entry.name}: {path} has the canary" for path in leaked]
    assert "sings" not in terminal("logs", "trial").out
    assert [path.name for path in outside.iterdir()] == ["canary"]
    assert (outside / "canary").read_text() == "sings"
    terminal("stop", "trial", "--force")
    process.communicate(timeout=PATIENCE)
    assert wrong == []


def test_a_hostile_terminal_reaches_only_its_own_client(tmp_path: Path) -> None:
    """The pod replaces /dev/ptmx; and keys that a pod types into its terminal are read by the pod only."""
    terminal = Terminal(tmp_path)
    terminal.workspace.environ["TERM"] = "xterm"
    script = "rm /dev/ptmx && mkfifo /dev/ptmx; echo up; sleep 1000"
    process = terminal.workspace.start(job(task("hostile", script), task("honest", "echo up; sleep 1000")))
    terminal.until(lambda: terminal("logs", "trial", code=None).out.count("up\n") == 2)
    pumice = shlex.join([sys.executable, "-c", "import sys; from pumice.cli.program import main; sys.exit(main())"])
    screen = OnTerminal(["sh", "-c", f"{pumice} exec hostile-0 -- sh; echo code $?"], tmp_path, terminal.workspace.env)
    screen.read_until("cannot open a terminal")
    screen.read_until("code 1")
    assert screen.read_to_end() == 0
    # TIOCSTI types into the terminal that a program controls: it must be one of the pod.
    types = (
        "import fcntl, os, termios; print(os.ttyname(0), os.stat(0).st_dev == os.stat('/dev/pts').st_dev, flush=True)"
    )
    types += "\nfor key in b'echo typed\\n':\n    fcntl.ioctl(0, termios.TIOCSTI, bytes([key]))"
    inside = f"{pumice} exec honest-0 -- python3 -c {shlex.quote(types)}; echo code $?; read -t 2 line; echo got=$line="
    screen = OnTerminal(["bash", "-c", inside], tmp_path, terminal.workspace.env)
    screen.read_until("/dev/pts/0 True")
    screen.read_until("got==")
    assert screen.read_to_end() == 0
    terminal("stop", "trial", "--force")
    process.communicate(timeout=PATIENCE)
