"""Security contexts of pods and containers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.checks import (
    GREATEST_ID,
    descending_path,
    one_of,
    required,
    required_one_of,
    unique,
    user_id,
)
from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import Finding, Path
from pumice.model.syntax import LONGEST_SUBDOMAIN, too_long

PROFILES: Final = ("RuntimeDefault", "Localhost", "Unconfined")
_LONGEST_PROFILE: Final = 4095
_SEGMENT: Final = r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"({_SEGMENT}[./])*{_SEGMENT}"
_IPC_SYSCTLS: Final = frozenset(
    f"kernel.{name}"
    for name in ("sem", "shm", "shmall", "shmmax", "shmmni", "shm_rmid_forced", "msg", "msgmax", "msgmnb", "msgmni")
)


def check_pod_security(spec: View) -> Iterator[Finding]:
    context = spec.part("securityContext")
    yield from user_id(context, "fsGroup", "runAsUser", "runAsGroup")
    for at, group in context.numbers("supplementalGroups"):
        if not 0 <= group <= GREATEST_ID:
            yield Finding(at, f"must be from 0 to {GREATEST_ID}", group)
    yield from one_of(context, "fsGroupChangePolicy", ("OnRootMismatch", "Always"), blank_is_unset=False)
    yield from one_of(context, "supplementalGroupsPolicy", ("Merge", "Strict"), blank_is_unset=False)
    yield from one_of(context, "seLinuxChangePolicy", ("MountOption", "Recursive"), blank_is_unset=False)
    yield from _check_sysctls(context, spec)
    yield from _check_profiles(context)


def check_container_security(container: View, *, shares_users: bool) -> Iterator[Finding]:
    context = container.part("securityContext")
    yield from user_id(context, "runAsUser", "runAsGroup")
    yield from one_of(context, "procMount", ("Default", "Unmasked"), blank_is_unset=False)
    if shares_users and context.text("procMount") == "Unmasked":
        yield context.error("procMount", "Unmasked needs hostUsers: false in the pod")
    if context.denies("allowPrivilegeEscalation"):
        if context.flag("privileged"):
            yield context.error("allowPrivilegeEscalation", "cannot be false in a privileged container")
        if any(name == "CAP_SYS_ADMIN" for _, name in context.part("capabilities").texts("add")):
            yield context.error("allowPrivilegeEscalation", "cannot be false with the capability CAP_SYS_ADMIN")
    yield from _check_profiles(context)


def _check_sysctls(context: View, spec: View) -> Iterator[Finding]:
    seen: dict[str, Path] = {}
    for sysctl in context.children("sysctls"):
        yield from required(sysctl, "name")
        name = sysctl.text("name")
        if name and not re.fullmatch(_SYSCTL, name):
            yield sysctl.error(
                "name", "must be lower-case words with '.' or '/' between them, such as net.core.somaxconn"
            )
        elif error := too_long(name, LONGEST_SUBDOMAIN):
            yield sysctl.error("name", error)
        yield from unique(seen, name, sysctl.at / "name", "this sysctl")
        dotted = name.replace("/", ".")
        if spec.flag("hostNetwork") and dotted.startswith("net."):
            yield sysctl.error("name", "cannot be set when hostNetwork is true")
        if spec.flag("hostIPC") and (dotted in _IPC_SYSCTLS or dotted.startswith("fs.mqueue.")):
            yield sysctl.error("name", "cannot be set when hostIPC is true")


def _check_profiles(context: View) -> Iterator[Finding]:
    if seccomp := context.child("seccompProfile"):
        yield from _check_profile(seccomp)
        if seccomp.text("type") == "Localhost":
            yield from descending_path(seccomp, "localhostProfile")
    if apparmor := context.child("appArmorProfile"):
        yield from _check_profile(apparmor)
        profile = apparmor.text("localhostProfile")
        if profile != profile.strip():
            yield apparmor.error("localhostProfile", "must not begin or end with white space")
        elif error := too_long(profile, _LONGEST_PROFILE):
            yield apparmor.error("localhostProfile", error)
        elif apparmor.get("type") == "Localhost" and apparmor.get("localhostProfile") == "":
            yield apparmor.missing("localhostProfile", "is required for the type Localhost")


def _check_profile(profile: View) -> Iterator[Finding]:
    yield from required_one_of(profile, "type", PROFILES)
    if profile.text("type") == "Localhost":
        if not profile.has("localhostProfile"):
            yield profile.missing("localhostProfile", "is required for the type Localhost")
    elif profile.has("localhostProfile"):
        yield profile.error("localhostProfile", "can only be set for the type Localhost")
