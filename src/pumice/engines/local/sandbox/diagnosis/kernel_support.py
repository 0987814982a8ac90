"""What this machine's kernel permits, and for each refusal the command that grants it.

A child process (`trials`) tries what a sandbox needs; this module explains the outcome. One errno has several causes
(a kernel setting, AppArmor, an enclosing container), and each cause has its own remedy.
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

from pumice.engines.local.sandbox.init import cgroups
from pumice.engines.local.sandbox.python_start import python_start
from pumice.model.problem import Position, Problem

_SETTINGS = {
    "max_user_namespaces": "/proc/sys/user/max_user_namespaces",
    "unprivileged_userns_clone": "/proc/sys/kernel/unprivileged_userns_clone",
    "apparmor_restrict_unprivileged_userns": "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
}
_TIMEOUT = 20
_UNCONFINED = (
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined "
    "--security-opt systempaths=unconfined ... (podman: --security-opt seccomp=unconfined --security-opt unmask=ALL)"
)
_OPTIONAL = frozenset({"overlay", "proc"})
_MOUNTING = "mounting inside of user namespaces"
_FEATURES = {
    "namespaces": "rights inside of user namespaces",
    "tmpfs": _MOUNTING,
    "trees": _MOUNTING,
    "network": "a network of its own",
}


@dataclass(frozen=True, slots=True)
class KernelSupport:
    """`missing` prevents a sandbox, `degraded` weakens it. `limits` names the limits that the kernel enforces.

    The position of each problem names the feature, its hint is the command that grants it (empty if there is none).
    """

    missing: tuple[Problem, ...] = ()
    degraded: tuple[Problem, ...] = ()
    limits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Host:
    """Facts about this machine that tell the causes of a refusal apart."""

    settings: dict[str, int] = field(default_factory=dict)
    root: bool = False
    container: bool = False
    seccomp: bool = False
    kernel: str = ""
    user_session: bool = False  # systemd runs one for this user
    interpreter: str = "/usr/bin/python3"
    linux: bool = True
    proc: bool = True


def enforced_limits() -> frozenset[str]:
    """Return the limits that the kernel will enforce for a sandbox that this process starts."""
    return frozenset(cgroups.available(os.getpid()) if sys.platform == "linux" else ())


def check_kernel() -> KernelSupport:
    host = read_host()
    if not (host.linux and host.proc):
        return explain({}, host)
    try:
        with tempfile.TemporaryDirectory(prefix="pumice-trials-") as directory:
            done = subprocess.run(  # noqa: S603 - our own program
                python_start("sandbox.diagnosis.trials", directory),
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        outcome = json.loads(done.stdout)
    except OSError as error:
        reason = error.strerror or str(error)
        outcome = {"tried": {"directory": reason[:1].lower() + reason[1:]}, "limits": []}
    except (ValueError, subprocess.TimeoutExpired):
        outcome = {"tried": {"user": "EIO"}, "limits": []}
    return explain(outcome, host)


def read_host() -> Host:
    if sys.platform != "linux":
        return Host(linux=False)
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return Host(proc=False)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    return Host(
        settings={name: value for name, path in _SETTINGS.items() if (value := _number(path)) is not None},
        root=os.geteuid() == 0,
        container=any(os.path.exists(path) for path in ("/.dockerenv", "/run/.containerenv"))
        or "container" in os.environ,
        seccomp="\nSeccomp:\t2" in status,
        kernel=os.uname().release,
        user_session=bool(runtime) and os.path.exists(f"{runtime}/systemd/private"),
        interpreter=os.path.realpath(sys.executable),
    )


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return None


def explain(outcome: dict[str, Any], host: Host) -> KernelSupport:
    """What is missing, from the output of `trials`; pure."""
    if not host.linux:
        return KernelSupport((_problem("Linux", "namespaces exist on Linux only"),))
    if not host.proc:
        return KernelSupport((_problem("/proc", "nothing is mounted there", "sudo mount -t proc proc /proc"),))
    failed = {step: _explain_step(step, error, host) for step, error in outcome["tried"].items() if error}
    missing = tuple(problem for step, problem in failed.items() if step not in _OPTIONAL)
    degraded = [problem for step, problem in failed.items() if step in _OPTIONAL]
    limits = frozenset(outcome["limits"])
    if "memory" not in limits:
        degraded.append(_no_control_groups(host))
    return KernelSupport(missing, tuple(degraded), limits)


def _problem(feature: str, reason: str, command: str = "") -> Problem:
    return Problem(reason, command, Position(feature))


def _explain_step(step: str, error: str, host: Host) -> Problem:
    match step, error:
        case "directory", _:
            return _problem("the check of this kernel", error, "set TMPDIR to a directory of yours")
        case "pidfd", _:
            return _problem("pidfd", f"no pidfd_open ({error}): Linux 5.12 or newer is needed, this is {host.kernel}")
        case "user", _:
            return _explain_user_namespaces(error, host)
        case "trees", "ENOSYS":
            return _problem("mount_setattr", f"Linux 5.12 or newer is needed, this is {host.kernel}")
        case "overlay", _:
            reason = f"the kernel {host.kernel} refuses them ({error}): no image can be used, the host's is read-only"
            return _problem("overlay file systems", reason, "sudo modprobe overlay" if error == "ENODEV" else "")
        case "network", "EOPNOTSUPP" | "ENODEV":
            return _problem("veth interfaces", "the kernel has no veth, which connects pods", "sudo modprobe veth")
        case "proc", _:
            return covered_proc(error)
    return _refused(_FEATURES[step], error, host)


def _explain_user_namespaces(error: str, host: Host) -> Problem:
    feature = "user namespaces"
    limit = host.settings.get("max_user_namespaces", 0)
    if host.settings.get("max_user_namespaces") == 0:
        reason = "this machine allows none (user.max_user_namespaces is 0)"
        return _problem(feature, reason, "sudo sysctl -w user.max_user_namespaces=15000")
    if error == "ENOSPC":
        reason = f"the limit is reached, or they are nested too deeply (user.max_user_namespaces={limit})"
        return _problem(feature, reason, f"sudo sysctl -w user.max_user_namespaces={max(15000, 2 * limit)}")
    if error in ("EINVAL", "ENOSYS"):
        return _problem(feature, f"the kernel {host.kernel} was built without them (CONFIG_USER_NS)")
    if host.settings.get("unprivileged_userns_clone") == 0 and not host.root:
        reason = "only root may create them (kernel.unprivileged_userns_clone is 0)"
        return _problem(feature, reason, "sudo sysctl -w kernel.unprivileged_userns_clone=1")
    return _refused(feature, error, host)


def _refused(feature: str, error: str, host: Host) -> Problem:
    if host.settings.get("apparmor_restrict_unprivileged_userns") == 1 and not host.root:
        reason = "AppArmor restricts ordinary users (kernel.apparmor_restrict_unprivileged_userns is 1)"
        return _problem(feature, reason, apparmor_profile(host.interpreter))
    if host.container:
        return _problem(feature, f"the enclosing container refuses them ({error})", _UNCONFINED)
    if host.seccomp:
        # Either systemd can start a process outside of the filter, or this is a container of an unknown kind.
        command = "systemd-run --user --pty --same-dir pumice run ..." if host.user_session else _UNCONFINED
        reason = f"a seccomp filter refuses them ({error}), and every process started from here inherits it"
        return _problem(feature, reason, command)
    if host.root:
        return _problem(feature, f"refused to root as well ({error}): capabilities were dropped")
    return _problem(feature, f"the kernel refuses them to ordinary users ({error})", "sudo pumice run ...")


def apparmor_profile(interpreter: str) -> str:
    """The command that permits user namespaces to this interpreter only."""
    profile = f"abi <abi/4.0>, include <tunables/global> profile pumice {interpreter} flags=(unconfined) {{ userns, }}"
    path = "/etc/apparmor.d/pumice"
    return f"echo '{profile}' | sudo tee {path} && sudo apparmor_parser -r {path}"


def covered_proc(error: str = "EPERM") -> Problem:
    """Only containers cover parts of /proc, so the remedy is one for containers."""
    reason = f"the kernel refuses a new /proc ({error}) while parts of the old are covered: pods see all processes"
    return _problem("a /proc for each pod", reason, _UNCONFINED)


def _no_control_groups(host: Host) -> Problem:
    if host.root:
        return _problem("control groups", "no hierarchy that root may write to is mounted")
    reason = "this user may not create any: memory is polled instead; CPU shares and process counts are not limited"
    command = "systemd-run --user --scope -p Delegate=yes pumice run ..." if host.user_session else ""
    return _problem("control groups", reason, command)
