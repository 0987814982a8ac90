"""What a check of `pumice install --check` compares a cluster with, and its result: state, found, and what to do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.installation import Installation

APPLY: Final = "kubectl apply --server-side --force-conflicts -f -"


class Target(Struct, frozen=True):
    """What a cluster is compared with: the flags of its installation, or those that the user gave."""

    namespace: str = names.NAMESPACE
    gang: str = "auto"
    webhook: bool = True
    installation: Installation | None = None
    keep_log_tails: bool = False

    @property
    def apply_all(self) -> str:
        """The command that installs what is missing, without changing what the operator chose."""
        if self.installation is not None:
            return f"pumice install --upgrade{self._namespace} | {APPLY}"
        gang = f" --gang {self.gang}" if self.gang != "auto" else ""
        webhook = "" if self.webhook else " --no-webhook"
        tails = " --keep-log-tails" if self.keep_log_tails else ""
        return f"pumice install --image NAME{self._namespace}{gang}{webhook}{tails} | {APPLY}"

    @property
    def apply_crds(self) -> str:
        gang = " --gang volcano" if self.gang == "volcano" else ""
        return f"pumice install --crds-only{gang} | {APPLY}"

    @property
    def _namespace(self) -> str:
        return f" --namespace {self.namespace}" if self.namespace != names.NAMESPACE else ""


class State(StrEnum):
    OK = "ok"
    MISSING = "missing"
    # The check could not be made, or its result does not tell.
    UNKNOWN = "unknown"


class CheckResult(Struct, frozen=True):
    state: State
    found: str
    hint: str = ""
    subject: str = ""

    @property
    def is_ok(self) -> bool:
        return self.state is State.OK


def ok(found: str, hint: str = "") -> CheckResult:
    return CheckResult(State.OK, found, hint)


def missing(found: str, hint: str) -> CheckResult:
    return CheckResult(State.MISSING, found, hint)


async def result_of(subject: str, check: Callable[[], Awaitable[CheckResult]]) -> CheckResult:
    """Return the result of `check`, UNKNOWN if the API server refuses a request; raise if it does not answer."""
    try:
        result = await check()
    except ApiError as error:
        if error.status == 0:
            raise
        hint = "run the check as a user with more permissions"
        result = CheckResult(State.UNKNOWN, f"could not be checked: {error}", hint)
    return replace(result, subject=subject)


async def get_or_none(client: Client, resource: Resource, namespace: str | None, name: str) -> Mapping[str, Any] | None:
    try:
        return msgspec.json.decode(await client.get(resource, namespace, name), type=dict[str, Any])
    except ApiError as error:
        if not error.not_found:
            raise
        return None
