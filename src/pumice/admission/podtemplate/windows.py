"""Pods for Windows: their own options, and fields that exist only on Linux."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.checks import required_one_of, spelled
from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import Finding
from pumice.model.syntax import dns_subdomain_error

_LINUX_POD_CONTEXT: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)
_LINUX_CONTEXT: Final = (
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
)
_LONGEST_SPEC: Final = 64 * 1024
_LONGEST_USER: Final = 104
_LONGEST_DOMAIN: Final = 255
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NETBIOS = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_DNS_PART: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS = re.compile(rf"{_DNS_PART}(?:\.{_DNS_PART})*")
_NOT_IN_USERS = re.compile(r'["/\\:;|=,+*?<>@\[\]]')


def check_os(spec: View) -> Iterator[Finding]:
    system = spec.child("os")
    if system is not None:
        yield from required_one_of(system, "name", ("linux", "windows"))
        if system.text("name") == "linux":
            yield from _check_linux(spec)
        elif system.text("name") == "windows":
            yield from _check_windows(spec)
    yield from _check_host_process(spec)


def _check_linux(spec: View) -> Iterator[Finding]:
    for owner in (spec, *spec.containers()):
        context = owner.part("securityContext")
        if context.has("windowsOptions"):
            yield context.missing("windowsOptions", "cannot be set for a linux pod")


def _check_windows(spec: View) -> Iterator[Finding]:
    context = spec.part("securityContext")
    yield from _forbidden(context, _LINUX_POD_CONTEXT)
    yield from _forbidden(context, ("sysctls",) if context.size("sysctls") else ())
    yield from _forbidden(spec, ("hostUsers", "shareProcessNamespace"))
    yield from _forbidden(spec, tuple(key for key in ("hostPID", "hostIPC") if spec.flag(key)))
    for container in spec.containers():
        yield from _forbidden(container.part("securityContext"), _LINUX_CONTEXT)


def _forbidden(view: View, keys: tuple[str, ...]) -> Iterator[Finding]:
    for key in keys:
        if view.has(key):
            yield view.missing(key, "cannot be set for a windows pod")


def _check_host_process(spec: View) -> Iterator[Finding]:
    """Check hostProcess: all containers of a pod or none, and on the node's network."""
    of_pod = spec.part("securityContext").part("windowsOptions").get("hostProcess")
    containers = spec.containers()
    count = 0
    for container in containers:
        options = container.part("securityContext").part("windowsOptions")
        own = options.get("hostProcess")
        if isinstance(own, bool) and isinstance(of_pod, bool) and own != of_pod:
            yield options.error("hostProcess", "must be the same as in the pod's securityContext")
        count += (of_pod if own is None else own) is True
    if not count:
        return
    if count != len(containers):
        yield Finding(spec.at, "either all containers or none must have hostProcess")
    if not spec.flag("hostNetwork"):
        yield spec.error("hostNetwork", "must be true for hostProcess containers")


def check_windows_options(context: View) -> Iterator[Finding]:
    options = context.part("windowsOptions")
    yield from spelled(options, "gmsaCredentialSpecName", dns_subdomain_error, blank_is_unset=False)
    credentials = options.get("gmsaCredentialSpec")
    if isinstance(credentials, str) and not 0 < len(credentials.encode()) <= _LONGEST_SPEC:
        yield options.missing("gmsaCredentialSpec", "must be from 1 byte to 64 KiB")
    yield from spelled(options, "runAsUserName", _user_error, blank_is_unset=False)


def _user_error(name: str) -> str:
    if _CONTROL.search(name):
        return "must not contain control characters"
    domain, backslash, user = name.rpartition("\\")
    known = len(domain) <= _LONGEST_DOMAIN and (_NETBIOS.fullmatch(domain) or _DNS.fullmatch(domain))
    if backslash and not known:
        return "must be a user, or a domain and a user with one backslash between them"
    if not user.strip(". ") or _NOT_IN_USERS.search(user):
        return "the user must be letters, digits and some punctuation, and not only dots or spaces"
    return "" if len(user) <= _LONGEST_USER else f"the user must be at most {_LONGEST_USER} characters"
