"""What this machine permits, and for each thing it refuses the command that grants it.

The trying happens in a child process (`attempts`); here is what its outcome means. A refusal has many fathers: the
kernel's settings, AppArmor's, the container that we may be in. Each has its own remedy, so each is told apart.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pumice.engines.local.sandbox.python_start import python_start

_SETTINGS = {
    "max_user_namespaces": "/proc/sys/user/max_user_namespaces",
    "unprivileged_userns_clone": "/proc/sys/kernel/unprivileged_userns_clone",
    "apparmor_restrict_unprivileged_userns": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
}
_SECONDS = 20
_UNCONFINED = (
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined ... (podman: --security-opt seccomp=unconfined --security-opt unmask=ALL)"
)


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that is refused: what it is, why, and the command that grants it (empty: there is none)."""

    what: str
    why: str
    command: str = ""
    fatal: bool = True


@dataclass(frozen=True, slots=True)
class Permits:
    """`limits` are those of memory, cpu and pids that the kernel would enforce."""

    missing: tuple[Missing, ...]
    limits: frozenset[str] = frozenset()

    @property
    def namespaces(self) -> bool:
        """Whether a sandbox can be had at all."""
        return not any(missing.fatal for missing in self.missing)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the machine says about itself: it tells one refusal from another."""

    settings: dict[str, int] = field(default_factory=dict)
    root: bool = False
    container: bool = False
    filtered: bool = False
    kernel: str = ""
    user_session: bool = False
    interpreter: str = "/usr/bin/python3"
    linux: bool = True
    proc: bool = True


def probe() -> Permits:
    surroundings = look_around()
    if not (surroundings.linux and surroundings.proc):
        return judge({}, surroundings)
    try:
        with tempfile.TemporaryDirectory(prefix="pumice-probe-") as place:
            done = subprocess.run(  # noqa: S603 - our own program
                python_start("sandbox.diagnosis.trials", place),
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
        outcome = json.loads(done.stdout)
    except OSError as error:
        words = error.strerror or str(error)
        outcome = {"tried": {"place": words[:1].lower() + words[1:]}, "limits": []}
    except (ValueError, subprocess.TimeoutExpired):
        outcome = {"tried": {"user": "EIO"}, "limits": []}
    return judge(outcome, surroundings)


def look_around() -> Surroundings:
    if sys.platform != "linux":
        return Surroundings(linux=False)
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return Surroundings(proc=False)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return Surroundings(
        settings={name: value for name, path in _SETTINGS.items() if (value := _number(path)) is not None},
        root=os.geteuid() == 0,
        container=any(os.path.exists(path) for path in ("/.dockerenv", "/run/.containerenv"))
        or "container" in os.environ,
        filtered="\nSeccomp:\t2" in status,
        kernel=os.uname().release,
        user_session=bool(runtime) and os.path.exists(f"{runtime}/systemd/private"),
        interpreter=os.path.realpath(sys.executable),
    )


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def judge(outcome: dict[str, Any], around: Surroundings) -> Permits:
    """From what was tried to what is missing; pure."""
    if not around.linux:
        return Permits((Missing("Linux", "namespaces exist on Linux only"),))
    if not around.proc:
        return Permits((Missing("/proc", "nothing is mounted there", "sudo mount -t proc proc /proc"),))
    missing: list[Missing] = []
    for step, problem in outcome["tried"].items():
        if problem:
            missing.append(_EXPLANATIONS[step](problem, around))
    limits = frozenset(outcome["limits"])
    if "memory" not in limits:
        missing.append(_control_groups(around))
    return Permits(tuple(missing), limits)


def _pidfd(problem: str, around: Surroundings) -> Missing:
    return Missing(
        "pidfd", f"the kernel has no pidfd_open ({problem}): Linux 5.12 or newer is needed, not {around.kernel}"
    )


def _user_namespaces(problem: str, around: Surroundings) -> Missing:
    what = "user namespaces"
    settings = around.settings
    if settings.get("max_user_namespaces") == 0:
        why = "this machine allows none (user.max_user_namespaces is 0)"
        return Missing(what, why, "sudo sysctl -w user.max_user_namespaces=15000")
    if problem == "ENOSPC":
        most = settings.get("max_user_namespaces", 0)
        why = (
            f"all that this machine allows are in use, or they are nested too deeply (user.max_user_namespaces={most})"
        )
        return Missing(what, why, f"sudo sysctl -w user.max_user_namespaces={max(15000, 2 * most)}")
    if problem in ("EINVAL", "ENOSYS"):
        return Missing(what, f"the kernel {around.kernel} was built without them (CONFIG_USER_NS)")
    if settings.get("unprivileged_userns_clone") == 0 and not around.root:
        why = "only root may make them (kernel.unprivileged_userns_clone is 0)"
        return Missing(what, why, "sudo sysctl -w kernel.unprivileged_userns_clone=1")
    return _refused(what, problem, around)


def _refused(what: str, problem: str, around: Surroundings) -> Missing:
    if settings_forbid(around):
        why = "AppArmor takes their rights away from ordinary users (kernel.apparmor_restrict_unprivileged_userns is 1)"
        return Missing(what, why, apparmor_profile(around.interpreter))
    if around.container:
        return Missing(what, f"the container that this runs in refuses them ({problem})", _UNCONFINED)
    if around.filtered:
        why = (
            f"a filter on system calls (seccomp) refuses them ({problem}), and nothing started from here gets rid of it"
        )
        return Missing(what, why, _unfiltered(around))
    if around.root:
        return Missing(what, f"refused to root, too ({problem}): capabilities were taken away")
    return Missing(what, f"the kernel refuses them to ordinary users ({problem})", "sudo pumice run ...")


def _unfiltered(around: Surroundings) -> str:
    """A way to start something that does not inherit the filter; else this is a container that we do not recognise."""
    return "systemd-run --user --pty --same-dir pumice run ..." if around.user_session else _UNCONFINED


def settings_forbid(around: Surroundings) -> bool:
    return around.settings.get("apparmor_restrict_unprivileged_userns") == 1 and not around.root


def apparmor_profile(interpreter: str) -> str:
    """The rule for one program only: it leaves the protection on for all others."""
    profile = f"abi <abi/4.0>, include <tunables/global> profile pumice {interpreter} flags=(unconfined) {{ userns, }}"
    path = "/etc/apparmor.d/pumice"
    return f"echo '{profile}' | sudo tee {path} && sudo apparmor_parser -r {path}"


def _namespaces(problem: str, around: Surroundings) -> Missing:
    return _refused("rights inside of user namespaces", problem, around)


def _tmpfs(problem: str, around: Surroundings) -> Missing:
    return _refused("mounting inside of user namespaces", problem, around)


def _trees(problem: str, around: Surroundings) -> Missing:
    if problem == "ENOSYS":
        why = f"Linux 5.12 or newer is needed for read-only trees of mounts, not {around.kernel}"
        return Missing("mount_setattr", why)
    return _refused("mounting inside of user namespaces", problem, around)


def _overlay(problem: str, around: Surroundings) -> Missing:
    why = f"the kernel {around.kernel} gives no overlay here ({problem}): no image can be used, the host's is read-only"
    command = "sudo modprobe overlay" if problem == "ENODEV" else ""
    return Missing("overlay file systems", why, command, fatal=False)


def _network(problem: str, around: Surroundings) -> Missing:
    if problem in ("EOPNOTSUPP", "ENODEV"):
        return Missing("veth interfaces", "the kernel has no veth, which connects pods", "sudo modprobe veth")
    return _refused("a network of its own", problem, around)


def covered_proc(problem: str, _: Surroundings) -> Missing:
    """Hardly anything but a container covers parts of it."""
    why = f"a new one is refused ({problem}) where parts of the old are covered: pods see all processes"
    return Missing("a /proc for each pod", why, _UNCONFINED, fatal=False)


def _control_groups(around: Surroundings) -> Missing:
    why = "this user may not make any: memory is watched instead, fractions of a CPU and numbers of processes are not"
    if around.root:
        return Missing("control groups", "none that root may write to is mounted", fatal=False)
    command = "systemd-run --user --scope -p Delegate=yes pumice run ..." if around.user_session else ""
    return Missing("control groups", why, command, fatal=False)


def _place(problem: str, _: Surroundings) -> Missing:
    return Missing("a look at what is refused", problem, "set TMPDIR to a directory of yours")


_EXPLANATIONS = {
    "place": _place,
    "pidfd": _pidfd,
    "user": _user_namespaces,
    "namespaces": _namespaces,
    "tmpfs": _tmpfs,
    "trees": _trees,
    "overlay": _overlay,
    "network": _network,
    "proc": covered_proc,
}
