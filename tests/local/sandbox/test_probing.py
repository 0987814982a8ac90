from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pumice.engines.local.sandbox import probing
from pumice.engines.local.sandbox.probing import Missing, Surroundings, judge
from tests.local.sandbox.boxes import AS_ROOT, need_namespaces

USER = Surroundings(settings={"max_user_namespaces": 9000}, kernel="6.1.0")
ROOT = replace(USER, root=True)
CONTAINER = replace(USER, container=True)
UBUNTU = replace(USER, settings={"max_user_namespaces": 9000, "apparmor_restrict_unprivileged_userns": 1})
ALL = ["cpu", "memory", "pids"]


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
            probing.apparmor_profile("/usr/bin/python3"),
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
            "the container that this runs",
            "docker run ",
            id="a filter on system calls",
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
    permits = probing.probe()
    assert Path("/proc/self/mountinfo").read_text() == mounts
    assert all(missing.why for missing in permits.missing)


# Refusals can be had for real: by settings that hold inside of a user namespace, in which the probe then runs.
@pytest.mark.parametrize(
    ("setup", "what"),
    [
        pytest.param("echo 0 > /proc/sys/user/max_user_namespaces", "user namespaces", id="none allowed"),
        pytest.param("mount -t tmpfs none /proc/acpi", "a /proc for each pod", id="covered proc"),
    ],
)
def test_a_real_refusal(setup: str, what: str) -> None:
    need_namespaces()
    program = "from pumice.engines.local.sandbox.probing import probe\nprint([m.what for m in probe().missing])"
    source = Path(probing.__file__).parents[4]
    done = subprocess.run(
        ["unshare", "-Urmpf", "--mount-proc", "sh", "-ec", f'{setup}; exec "$0" -c "$1"', sys.executable, program],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert what in done.stdout, done.stderr


def test_root_or_not() -> None:
    assert probing.look_around().root is AS_ROOT
