from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from pumice.engines.kubernetes.install.installation import Installation, InstallationError, find_installation
from pumice.engines.kubernetes.install.manifests import ComponentOptions, InstallOptions, manifests
from tests.unit.engines.kubernetes.played_api import client_of, played, refusing

Manifest = dict[str, Any]


def deployments(options: InstallOptions) -> list[Manifest]:
    return [each for each in manifests(options) if each["kind"] == "Deployment"]


def installation(*flags: str, **container: Any) -> Installation:
    """Return an installation whose controller has these flags."""
    controller, webhook = deployments(InstallOptions("a", "apart", "native"))
    (present,) = controller["spec"]["template"]["spec"]["containers"]
    present |= {"args": ["controller", *flags], **container}
    return Installation("apart", {"controller": controller, "webhook": webhook})


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(InstallOptions("a:1"), id="as it comes"),
        pytest.param(InstallOptions("a:1", "apart", "native", webhook=False), id="other flags"),
        pytest.param(InstallOptions("a:1", keep_log_tails=True), id="log tails"),
        pytest.param(
            InstallOptions(
                "a:1",
                kept={
                    "controller": ComponentOptions("b:1", 3, ("--workers=8",), {"limits": {"memory": "2Gi"}}),
                    "webhook": ComponentOptions("a:1", 1, ("--log-level=debug",)),
                },
            ),
            id="other images, replicas, flags and resources",
        ),
    ],
)
def test_an_upgrade_prints_what_is_installed(options: InstallOptions) -> None:
    parts = dict(zip(("controller", "webhook"), deployments(options), strict=False))
    found = Installation(options.namespace, parts)  # type: ignore[arg-type]  # the keys are Components
    assert list(manifests(found.options())) == list(manifests(options))


def test_what_is_given_wins() -> None:
    options = installation("--gang=native").options("b:2", "none")
    assert (options.image, options.gang, options.namespace) == ("b:2", "none", "apart")
    assert {kept.image for kept in options.kept.values()} == {"b:2"}


@pytest.mark.parametrize(
    ("found", "gang"),
    [
        pytest.param(installation("--gang=native"), "native", id="flag"),
        pytest.param(installation("--gang", "volcano"), "volcano", id="two words"),
        pytest.param(installation(env=[{"name": "PUMICE_GANG", "value": "none"}]), "none", id="environment"),
        pytest.param(installation(), "auto", id="nothing"),
        pytest.param(installation("--gang=later"), "auto", id="unknown to this version"),
    ],
)
def test_the_gang_provider(found: Installation, gang: str) -> None:
    assert found.gang == gang


@pytest.mark.parametrize(
    ("flags", "kept"),
    [
        pytest.param(
            ["--gang=native", "--listen=0.0.0.0:8081", "--metrics-listen=0.0.0.0:8080"], (), id="those of the manifests"
        ),
        pytest.param(["--namespace", "a", "--no-leader-elect"], ("--namespace=a", "--no-leader-elect"), id="words"),
    ],
)
def test_flags_of_the_operator_are_kept(flags: list[str], kept: tuple[str, ...]) -> None:
    assert installation(*flags).options().of("controller").flags == kept


@played
async def test_the_installation_of_a_cluster() -> None:
    there = deployments(InstallOptions("a:1", "apart"))

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "/namespaces/" not in request.path:
            return web.json_response({"metadata": {}, "items": there})
        return web.json_response({"metadata": {}, "items": [one for one in there if "/nosuch/" not in request.path]})

    async with client_of(answer) as client:
        found = await find_installation(client)
        assert found is not None
        assert (found.namespace, found.has_webhook) == ("apart", True)
        assert await find_installation(client, "nosuch") is None
        there += deployments(InstallOptions("a:1", "other"))
        with pytest.raises(InstallationError, match="several namespaces: apart, other"):
            await find_installation(client)


@played
async def test_a_user_who_sees_only_the_namespace_of_pumice() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "/namespaces/pumice-system/" not in request.path:
            return await refusing(403, "Forbidden")(request)
        return web.json_response({"metadata": {}, "items": deployments(InstallOptions("a:1"))})

    async with client_of(answer) as client:
        found = await find_installation(client)
        assert found is not None
        assert found.namespace == "pumice-system"
