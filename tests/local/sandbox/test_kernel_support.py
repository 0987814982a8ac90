from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.sandbox.diagnosis import kernel_support
from pumice.engines.local.sandbox.diagnosis.kernel_support import Host, KernelSupport, explain
from pumice.model.problem import Position, Problem
from tests.local.sandbox import refusals
from tests.local.sandbox.boxes import AS_ROOT, need_namespaces

USER = Host(settings={"max_user_namespaces": 9000}, kernel="6.1.0")
ROOT = replace(USER, root=True)
CONTAINER = replace(USER, container=True)
UBUNTU = replace(USER, settings={"max_user_namespaces": 9000, "apparmor_restrict_unprivileged_userns": 1})
APPARMOR = kernel_support.apparmor_profile("/usr/bin/python3")
ALL = ["cpu", "memory", "pids"]
BY_CONTAINER = "the enclosing container refuses them (EPERM)"
BY_SECCOMP = "a seccomp filter refuses them (EPERM), and every process started from here inherits it"
MOUNTING = "mounting inside of user namespaces"

REFUSED: dict[str, tuple[dict[str, str], Host, str, str]] = {
    "old kernel": ({"pidfd": "ENOSYS"}, USER, "pidfd: no pidfd_open (ENOSYS): Linux 5.12 or newer", ""),
    "none allowed": (
        {"user": "ENOSPC"},
        replace(USER, settings={"max_user_namespaces": 0}),
        "user namespaces: this machine allows none (user.max_user_namespaces is 0)",
        "sudo sysctl -w user.max_user_namespaces=15000",
    ),
    "limit reached": (
        {"user": "ENOSPC"},
        USER,
        "user namespaces: the limit is reached",
        "sudo sysctl -w user.max_user_namespaces=18000",
    ),
    "not built in": ({"user": "EINVAL"}, USER, "user namespaces: the kernel 6.1.0 was built without them", ""),
    "only root": (
        {"user": "EPERM"},
        replace(USER, settings={"unprivileged_userns_clone": 0}),
        "user namespaces: only root may create them",
        "sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    "apparmor": ({"user": "EPERM"}, UBUNTU, "user namespaces: AppArmor restricts ordinary users", APPARMOR),
    "apparmor, inside": (
        {"user": "", "namespaces": "EPERM"},
        UBUNTU,
        "rights inside of user namespaces: AppArmor restricts ordinary users",
        APPARMOR,
    ),
    "container": ({"user": "EPERM"}, CONTAINER, f"user namespaces: {BY_CONTAINER}", "docker run "),
    "seccomp": ({"user": "EPERM"}, replace(ROOT, seccomp=True), f"user namespaces: {BY_SECCOMP}", "docker run "),
    "seccomp in a user session": (
        {"user": "EPERM"},
        replace(USER, seccomp=True, user_session=True),
        f"user namespaces: {BY_SECCOMP}",
        "systemd-run --user --pty --same-dir pumice run ...",
    ),
    "root without capabilities": ({"user": "EPERM"}, ROOT, "user namespaces: refused to root as well", ""),
    "other": ({"user": "EPERM"}, USER, "user namespaces: the kernel refuses them to", "sudo pumice run ..."),
    "mounts": ({"tmpfs": "EPERM"}, CONTAINER, f"{MOUNTING}: {BY_CONTAINER}", "docker run "),
    "kernel 5.11": ({"trees": "ENOSYS"}, USER, "mount_setattr: Linux 5.12 or newer is needed", ""),
    "trees": ({"trees": "EPERM"}, CONTAINER, f"{MOUNTING}: {BY_CONTAINER}", "docker run "),
    "veth": ({"network": "EOPNOTSUPP"}, USER, "veth interfaces: the kernel has no veth", "sudo modprobe veth"),
    "network": ({"network": "EPERM"}, CONTAINER, f"a network of its own: {BY_CONTAINER}", "docker run "),
}
DEGRADED: dict[str, tuple[dict[str, Any], Host, str, str]] = {
    "overlay refused": ({"tried": {"overlay": "EPERM"}, "limits": ALL}, USER, "overlay file systems: ", ""),
    "no overlay": ({"tried": {"overlay": "ENODEV"}, "limits": ALL}, USER, "overlay file", "sudo modprobe overlay"),
    "covered proc": ({"tried": {"proc": "EPERM"}, "limits": ALL}, CONTAINER, "a /proc for each pod: ", "docker run "),
    "no groups": ({"tried": {}, "limits": ["cpu"]}, USER, "control groups: this user may not create any", ""),
    "user session": (
        {"tried": {}, "limits": []},
        replace(USER, user_session=True),
        "control groups: ",
        "systemd-run --user --scope",
    ),
    "no groups for root": ({"tried": {}, "limits": []}, ROOT, "control groups: no hierarchy that root", ""),
}


def _is(problem: Problem, message: str, command: str) -> bool:
    return str(problem).startswith(message) and problem.hint.startswith(command) and bool(problem.hint) == bool(command)


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_explained_with_the_command_that_grants_it(case: str) -> None:
    tried, host, message, command = REFUSED[case]
    support = explain({"tried": tried, "limits": ALL}, host)
    (problem,) = support.missing
    assert _is(problem, message, command), problem
    assert support.degraded == ()


@pytest.mark.parametrize("case", DEGRADED)
def test_an_optional_feature_is_reported_and_does_not_prevent_a_sandbox(case: str) -> None:
    outcome, host, message, command = DEGRADED[case]
    support = explain(outcome, host)
    (problem,) = support.degraded
    assert _is(problem, message, command), problem
    assert support.missing == ()


def test_nothing_is_missing() -> None:
    support = explain({"tried": {"user": "", "proc": ""}, "limits": ALL}, USER)
    assert support == KernelSupport(limits=frozenset(ALL))


def test_other_systems_have_no_namespaces() -> None:
    problem = Problem("namespaces exist on Linux only", where=Position("Linux"))
    assert explain({}, Host(linux=False)).missing == (problem,)


def test_the_check_leaves_no_mounts() -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    kernel_support.check_kernel()
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert kernel_support.read_host().root is AS_ROOT


BY_THIS_MACHINE = BY_CONTAINER if kernel_support.read_host().container else BY_SECCOMP
DOCKER = "docker run --security-opt seccomp=unconfined"


@pytest.mark.parametrize(
    ("refusal", "message", "command"),
    [
        pytest.param(refusals.NONE_ALLOWED, REFUSED["none allowed"][2], REFUSED["none allowed"][3], id="none allowed"),
        pytest.param(refusals.FILTERED, f"user namespaces: {BY_THIS_MACHINE}", DOCKER, id="seccomp"),
        pytest.param(
            refusals.WITHOUT_RIGHTS, f"rights inside of user namespaces: {BY_THIS_MACHINE}", DOCKER, id="no rights"
        ),
        pytest.param(refusals.IN_A_CONTAINER, f"user namespaces: {BY_CONTAINER}", DOCKER, id="container"),
        pytest.param(
            refusals.COVERED_PROC,
            "a /proc for each pod: the kernel refuses a new /proc (EPERM) while parts of the old are covered",
            DOCKER,
            id="covered proc",
        ),
    ],
)
def test_a_real_refusal(refusal: refusals.Refusal, message: str, command: str) -> None:
    need_namespaces()
    program = (
        "import json; from pumice.engines.local.sandbox.diagnosis.kernel_support import check_kernel\n"
        "support = check_kernel()\n"
        "print(json.dumps([(str(each), each.hint) for each in (*support.missing, *support.degraded)]))"
    )
    done = refusals.run_refused(refusal, sys.executable, "-c", program)
    found = json.loads(done.stdout)
    assert any(text.startswith(message) and hint.startswith(command) for text, hint in found), found


def _raising(error: Exception) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> object:
        raise error

    return refuse


def test_a_missing_temporary_directory_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryDirectory", _raising(FileNotFoundError(2, "No usable directory")))
    problem = Problem("no usable directory", "set TMPDIR to a directory of yours", Position("the check of this kernel"))
    assert kernel_support.check_kernel().missing[0] == problem


def test_a_check_that_hangs_counts_as_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", _raising(subprocess.TimeoutExpired("python", 20)))
    assert kernel_support.check_kernel().missing
