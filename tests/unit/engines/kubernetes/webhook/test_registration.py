from __future__ import annotations

import base64
import datetime as dt
import json
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.webhook.certificates import renewed
from pumice.engines.kubernetes.webhook.registration import Publication, ServiceRegistration
from tests.unit.engines.kubernetes.played_api import played

NOW = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
OLD, NEW = (renewed(None, ["a"], NOW).issuer for _ in range(2))


@dataclass
class Server:
    """Stores the two configurations as an API server does: patched by server-side apply, with a default policy."""

    bundle: bytes = b""
    policy: str = "Ignore"
    version: int = 1
    conflicts: int = 0
    missing: bool = False
    namespace: str = "lab"
    applied: list[dict[str, Any]] = field(default_factory=list)

    async def merge_patch(self, _resource: Resource, _namespace: None, _name: str, _body: bytes, **_how: Any) -> bytes:
        if self.missing:
            raise ApiError(404, "NotFound")
        client = {"caBundle": base64.b64encode(self.bundle).decode(), "service": {"namespace": self.namespace}}
        hook = {"clientConfig": client, "failurePolicy": self.policy}
        return json.dumps({"metadata": {"resourceVersion": str(self.version)}, "webhooks": [hook]}).encode()

    async def apply(self, _resource: Resource, _namespace: None, _name: str, body: bytes, **_how: Any) -> bytes:
        patch = json.loads(body)
        if self.conflicts:
            self.conflicts -= 1
            self.version += 1
            self.bundle = OLD
            raise ApiError(409, "Conflict")
        assert patch["metadata"].get("resourceVersion") in (None, str(self.version))
        self.version += 1
        (hook,) = patch["webhooks"]
        self.bundle = base64.b64decode(hook["clientConfig"]["caBundle"])
        self.policy = hook.get("failurePolicy", self.policy)
        self.applied.append(hook)
        return b"{}"


def a_registration(server: Server, *, answered: bool = False) -> ServiceRegistration:
    return ServiceRegistration(cast(Client, server), "lab", "hook", lambda: answered)


@pytest.mark.parametrize(
    ("before", "keep", "after", "expected"),
    [
        pytest.param(b"", True, NEW, Publication(), id="first"),
        pytest.param(NEW, True, NEW, Publication(), id="same"),
        pytest.param(OLD, True, NEW + OLD, Publication(replaced=True, is_sole=False), id="beside another"),
        pytest.param(NEW + OLD, True, NEW + OLD, Publication(is_sole=False), id="beside another, again"),
        pytest.param(NEW + OLD, False, NEW, Publication(replaced=True), id="instead of another"),
        pytest.param(b"garbage", True, NEW, Publication(replaced=True), id="instead of garbage"),
    ],
)
@played
async def test_the_bundle(before: bytes, keep: bool, after: bytes, expected: Publication) -> None:
    server = Server(before)
    assert await a_registration(server).publish(NEW, keep) == expected
    assert server.bundle == after
    assert server.policy == "Ignore"


@played
async def test_the_configuration_of_another_namespace_is_left_alone() -> None:
    server = Server(OLD, namespace="moved")
    assert await a_registration(server, answered=True).publish(NEW, False) == Publication(trusted=False)
    assert (server.bundle, server.policy, server.applied) == (OLD, "Ignore", [])


@played
async def test_another_writer_is_not_undone() -> None:
    server = Server(conflicts=1)
    await a_registration(server).publish(NEW, True)
    assert server.bundle == NEW + OLD


@played
async def test_writers_that_conflict_for_ever() -> None:
    with pytest.raises(OSError, match="another writer changed MutatingWebhookConfiguration pumice 3 times"):
        await a_registration(Server(conflicts=100)).publish(NEW, True)


@played
async def test_fail_is_set_once_the_webhook_has_answered() -> None:
    server = Server(NEW)
    await a_registration(server).publish(NEW, True)
    assert server.applied == []
    await a_registration(server, answered=True).publish(NEW, True)
    assert server.policy == "Fail"
    # The second apply gives the field up, so that `kubectl apply` has no conflict with it.
    assert [hook.get("failurePolicy") for hook in server.applied] == ["Fail", None]
    await a_registration(server, answered=True).publish(NEW, True)
    assert len(server.applied) == 2


@played
async def test_without_configurations_nothing_is_trusted(caplog: pytest.LogCaptureFixture) -> None:
    registration = a_registration(Server(missing=True))
    for _ in range(2):
        assert await registration.publish(NEW, True) == Publication(trusted=False)
    assert len(caplog.records) == 2
    assert "apply the output of pumice install" in caplog.text
