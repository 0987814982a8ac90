from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.diagnosis import kernel_support
from pumice.engines.local.sandbox.diagnosis.kernel_support import Missing, Surroundings, judge
from tests.local.sandbox import refusals
from tests.local.sandbox.boxes import AS_ROOT, need_namespaces

USER = Surroundings(settings={"max_user_namespaces": 9000}, kernel="6.1.0")
ROOT = replace(USER, root=True)
CONTAINER = replace(USER, container=True)
UBUNTU = replace(USER, settings={"max_user_namespaces": 9000, "apparmor_restrict_unprivileged_userns": 1})
ALL = ["cpu", "memory", "pids"]
CONTAINED = "the container that this runs in refuses them (EPERM)"
FILTERED = "a filter on system calls (seccomp) refuses them (EPERM), and nothing started from here gets rid of it"


@pytest.mark.parametrize(
    ("tried", "around", "what", "why", "command"),
    [
        pytest.param({"pidfd": "ENOSYS"}, USER, "pidfd", "Linux 5.12 or newer", "", id="old kernel"),
        pytest.param(
            {"user": "ENOSPC"},
            replace(USER, settings={"max_user_namespaces": 0}),
            "user namespaces",
            "user.max_user_namespaces is 0",
            "sudo sysctl -w user.max_user_namespaces=15000",
            id="none allowed",
        ),
        pytest.param(
            {"user": "ENOSPC"},
            USER,
            "user namespaces",
            "all that this machine allows are in use",
            "sudo sysctl -w user.max_user_namespaces=18000",
            id="too many",
        ),
        pytest.param({"user": "EINVAL"}, USER, "user namespaces", "built without them", "", id="not built in"),
        pytest.param(
            {"user": "EPERM"},
            replace(USER, settings={"unprivileged_userns_clone": 0}),
            "user namespaces",
            "only root may make them",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
            id="for root only",
        ),
        pytest.param(
            {"user": "", "namespaces": "EPERM"},
            UBUNTU,
            "rights inside of user namespaces",
            "AppArmor takes their rights away",
            kernel_support.apparmor_profile("/usr/bin/python3"),
            id="apparmor",
        ),
        pytest.param(
            {"user": "EPERM"},
            CONTAINER,
            "user namespaces",
            "the container that this runs",
            "docker run ",
            id="container",
        ),
        pytest.param(
            {"user": "EPERM"},
            replace(ROOT, filtered=True),
            "user namespaces",
            "a filter on system calls (seccomp) refuses them (EPERM)",
            "docker run ",
            id="a filter on system calls",
        ),
        pytest.param(
            {"user": "EPERM"},
            replace(USER, filtered=True, user_session=True),
            "user namespaces",
            "a filter on system calls (seccomp) refuses them (EPERM)",
            "systemd-run --user --pty --same-dir pumice run ...",
            id="a filter that others do not have",
        ),
        pytest.param(
            {"user": "EPERM"},
            UBUNTU,
            "user namespaces",
            "kernel.apparmor_restrict_unprivileged_userns is 1",
            kernel_support.apparmor_profile("/usr/bin/python3"),
            id="apparmor, from the start",
        ),
        pytest.param({"user": "EPERM"}, ROOT, "user namespaces", "capabilities were taken away", "", id="weak root"),
        pytest.param(
            {"user": "EPERM"}, USER, "user namespaces", "to ordinary users", "sudo pumice run ...", id="other"
        ),
        pytest.param({"tmpfs": "EPERM"}, CONTAINER, "mounting", "the container", "docker run ", id="no mounts"),
        pytest.param({"trees": "ENOSYS"}, USER, "mount_setattr", "Linux 5.12", "", id="kernel 5.11"),
        pytest.param({"trees": "EPERM"}, CONTAINER, "mounting", "the container", "docker run ", id="no trees"),
        pytest.param({"network": "EOPNOTSUPP"}, USER, "veth", "no veth", "sudo modprobe veth", id="no veth"),
        pytest.param({"network": "EPERM"}, CONTAINER, "a network", "the container", "docker run ", id="no network"),
    ],
)
def test_what_is_refused_and_what_grants_it(
    tried: dict[str, str], around: Surroundings, what: str, why: str, command: str
) -> None:
    permits = judge({"tried": tried, "limits": ALL}, around)
    (missing,) = permits.missing
    assert not permits.namespaces
    assert missing.what.startswith(what)
    assert why in missing.why
    assert missing.command.startswith(command)
    assert bool(missing.command) == bool(command)


@pytest.mark.parametrize(
    ("tried", "limits", "around", "what", "command"),
    [
        pytest.param({"overlay": "EPERM"}, ALL, USER, "overlay file systems", "", id="overlay refused"),
        pytest.param(
            {"overlay": "ENODEV"}, ALL, USER, "overlay file systems", "sudo modprobe overlay", id="no overlay"
        ),
        pytest.param({"proc": "EPERM"}, ALL, CONTAINER, "a /proc for each pod", "docker run ", id="covered proc"),
        pytest.param({}, ["cpu"], USER, "control groups", "", id="no groups"),
        pytest.param(
            {}, [], replace(USER, user_session=True), "control groups", "systemd-run --user --scope", id="a session"
        ),
        pytest.param({}, [], ROOT, "control groups", "", id="no groups for root"),
    ],
)
def test_what_can_be_done_without(
    tried: dict[str, str], limits: list[str], around: Surroundings, what: str, command: str
) -> None:
    permits = judge({"tried": tried, "limits": limits}, around)
    (missing,) = permits.missing
    assert permits.namespaces
    assert (missing.what, missing.fatal) == (what, False)
    assert missing.command.startswith(command)


def test_nothing_is_missing() -> None:
    permits = judge({"tried": {"user": "", "proc": ""}, "limits": ALL}, USER)
    assert (permits.missing, permits.limits, permits.namespaces) == ((), frozenset(ALL), True)


def test_elsewhere() -> None:
    assert judge({}, Surroundings(linux=False)).missing == (Missing("Linux", "namespaces exist on Linux only"),)


def test_this_machine_is_probed_without_traces() -> None:
    mounts = Path("/proc/self/mountinfo").read_text()
    permits = kernel_support.probe()
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert all(missing.why for missing in permits.missing)


@pytest.mark.parametrize(
    ("refusal", "what", "why", "command"),
    [
        pytest.param(
            refusals.NONE_ALLOWED,
            "user namespaces",
            "this machine allows none (user.max_user_namespaces is 0)",
            "sudo sysctl -w user.max_user_namespaces=15000",
            id="none allowed",
        ),
        pytest.param(
            refusals.FILTERED,
            "user namespaces",
            CONTAINED if kernel_support.look_around().container else FILTERED,
            "docker run --security-opt seccomp=unconfined",
            id="a filter on system calls",
        ),
        pytest.param(
            refusals.WITHOUT_RIGHTS,
            "rights inside of user namespaces",
            CONTAINED if kernel_support.look_around().container else FILTERED,
            "docker run --security-opt seccomp=unconfined",
            id="no rights inside",
        ),
        pytest.param(
            refusals.IN_A_CONTAINER,
            "user namespaces",
            CONTAINED,
            "docker run --security-opt seccomp=unconfined",
            id="a container with a filter",
        ),
        pytest.param(
            refusals.COVERED_PROC,
            "a /proc for each pod",
            "a new one is refused (EPERM) where parts of the old are covered: pods see all processes",
            "docker run --security-opt seccomp=unconfined",
            id="covered proc",
        ),
    ],
)
def test_a_real_refusal(refusal: refusals.Refusal, what: str, why: str, command: str) -> None:
    need_namespaces()
    program = (
        "import json; from pumice.engines.local.sandbox.diagnosis.kernel_support import probe\n"
        "print(json.dumps([(m.what, m.why, m.command) for m in probe().missing]))"
    )
    done = refusals.run_refused(refusal, sys.executable, "-c", program)
    found = {missing: (reason, remedy) for missing, reason, remedy in json.loads(done.stdout)}
    assert found[what][0] == why
    assert found[what][1].startswith(command)


def test_root_or_not() -> None:
    assert kernel_support.look_around().root is AS_ROOT


def _raising(error: Exception) -> Callable[..., object]:
    def refuse(*_: object, **__: object) -> object:
        raise error

    return refuse


def test_nowhere_to_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryDirectory", _raising(FileNotFoundError(2, "No usable directory")))
    permits = kernel_support.probe()
    assert not permits.namespaces
    assert permits.missing[0] == Missing(
        "a look at what is refused", "no usable directory", "set TMPDIR to a directory of yours"
    )


def test_trying_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", _raising(subprocess.TimeoutExpired("python", 20)))
    assert not kernel_support.probe().namespaces
