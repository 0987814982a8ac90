from __future__ import annotations

from typing import Any

import pytest

from tests.unit.admission.podtemplate.samples import hints, in_container, rules

PORT = "must be lower-case letters, digits or '-', with at least one letter and no '-' at either end or twice in a row"
EXEC: dict[str, Any] = {"exec": {"command": ["true"]}}


def probe(key: str = "livenessProbe", **fields: object) -> dict[str, object]:
    return in_container(**{key: fields})


def http(**fields: object) -> dict[str, object]:
    return probe(httpGet={"port": 80, **fields})


def hook(grace: object = None, **handler: object) -> dict[str, object]:
    return in_container(lifecycle={"preStop": handler}) | {"terminationGracePeriodSeconds": grace}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(probe(**EXEC), id="exec"),
        pytest.param(http(path="/h", scheme="HTTPS", host="h", httpHeaders=[{"name": "X-A", "value": "b"}]), id="http"),
        pytest.param(http(port="web", protocol="HTTP2"), id="http 2 by the name of a port"),
        pytest.param(http(protocol="HTTP1", scheme="HTTPS"), id="http 1"),
        pytest.param(probe(tcpSocket={"port": 65535}), id="tcp"),
        pytest.param(probe(grpc={"port": 1, "mode": "TLS"}), id="grpc"),
        pytest.param(probe("readinessProbe", successThreshold=5, **EXEC), id="ready after more than one"),
        pytest.param(
            probe(successThreshold=0, timeoutSeconds=0, terminationGracePeriodSeconds=1, **EXEC), id="numbers"
        ),
        pytest.param(hook(sleep={"seconds": 30}), id="sleep as long as the default grace"),
        pytest.param(hook(0, sleep={"seconds": 0}), id="no sleep and no grace"),
        pytest.param(in_container(lifecycle={"stopSignal": "SIGRTMIN+15"}) | {"os": {"name": "linux"}}, id="signal"),
        pytest.param(in_container(lifecycle={"stopSignal": "SIGUSR1"}) | {"os": {"name": "windows"}}, id="on windows"),
        pytest.param(in_container(lifecycle={"postStart": EXEC}), id="hook"),
    ],
)
def test_valid(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(probe(), ["livenessProbe: must have one of exec, httpGet, tcpSocket or grpc"], id="no handler"),
        pytest.param(
            probe(**EXEC, tcpSocket={"port": 1}),
            ["livenessProbe.tcpSocket: only one handler may be given, and exec is"],
            id="two handlers",
        ),
        pytest.param(probe(exec={}), ["livenessProbe.exec.command: is required"], id="no command"),
        pytest.param(probe(exec="x"), [], id="a handler of a wrong shape is reported elsewhere"),
        pytest.param(probe(httpGet={}), ["livenessProbe.httpGet.port: is required"], id="no port"),
        pytest.param(http(port=0), ["livenessProbe.httpGet.port: must be from 1 to 65535"], id="port number"),
        pytest.param(http(port="80"), [f"livenessProbe.httpGet.port: {PORT}"], id="port number in quotes"),
        pytest.param(http(scheme="http"), ["livenessProbe.httpGet.scheme: must be HTTP or HTTPS"], id="scheme"),
        pytest.param(
            http(httpHeaders=[{"name": "X Y"}, {}]),
            [
                "livenessProbe.httpGet.httpHeaders[0].name: must be letters, digits or '-'",
                "livenessProbe.httpGet.httpHeaders[1].name: is required",
            ],
            id="headers",
        ),
        pytest.param(http(protocol="HTTP3"), ["livenessProbe.httpGet.protocol: must be HTTP1 or HTTP2"], id="protocol"),
        pytest.param(
            http(protocol="HTTP2", scheme="HTTPS"),
            ["livenessProbe.httpGet.protocol: HTTP2 needs the scheme HTTP"],
            id="encrypted http 2",
        ),
        pytest.param(
            http(protocol="HTTP2", host="h"),
            ["livenessProbe.httpGet.host: cannot be set together with HTTP2"],
            id="http 2 of another host",
        ),
        pytest.param(probe(tcpSocket={"port": "x_"}), [f"livenessProbe.tcpSocket.port: {PORT}"], id="tcp"),
        pytest.param(
            probe(grpc={"port": 70000, "mode": ""}),
            ["livenessProbe.grpc.port: must be from 1 to 65535", "livenessProbe.grpc.mode: must be Plaintext or TLS"],
            id="grpc",
        ),
        pytest.param(
            probe(successThreshold=2, **EXEC),
            ["livenessProbe.successThreshold: must be 1 for a livenessProbe"],
            id="alive after two",
        ),
        pytest.param(
            probe("startupProbe", periodSeconds=-1, terminationGracePeriodSeconds=0, **EXEC),
            [
                "startupProbe.periodSeconds: must be 0 or more",
                "startupProbe.terminationGracePeriodSeconds: must be 1 or more",
            ],
            id="numbers",
        ),
        pytest.param(
            probe("readinessProbe", terminationGracePeriodSeconds=5, **EXEC),
            ["readinessProbe.terminationGracePeriodSeconds: cannot be set for a readinessProbe"],
            id="grace for a readiness probe",
        ),
        pytest.param(
            hook(grpc={"port": 1}),
            ["lifecycle.preStop: must have one of exec, httpGet, tcpSocket or sleep"],
            id="hooks do not know grpc",
        ),
        pytest.param(
            hook(5, sleep={"seconds": 6}),
            ["lifecycle.preStop.sleep.seconds: must not be above terminationGracePeriodSeconds, which is 5"],
            id="sleep longer than the grace",
        ),
        pytest.param(
            hook(sleep={"seconds": -1}), ["lifecycle.preStop.sleep.seconds: must be 0 or more"], id="negative sleep"
        ),
        pytest.param(
            in_container(lifecycle={"stopSignal": "SIGTERM"}),
            ["lifecycle.stopSignal: can only be set together with os.name"],
            id="a signal of no system",
        ),
        pytest.param(
            in_container(lifecycle={"stopSignal": "SIGHELLO"}) | {"os": {"name": "linux"}},
            ["lifecycle.stopSignal: must be the name of a signal on linux, such as SIGTERM"],
            id="no signal",
        ),
    ],
)
def test_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.containers[0].{text}" for text in expected]


def test_hint_at_a_signal() -> None:
    assert hints(in_container(lifecycle={"stopSignal": "sigterm"}) | {"os": {"name": "linux"}}) == [
        "did you mean SIGTERM?"
    ]


def test_an_unknown_system_is_reported_once() -> None:
    spec = in_container(lifecycle={"stopSignal": "SIGTERM"}) | {"os": {"name": "beos"}}
    assert rules(spec) == ["spec.os.name: must be linux or windows"]
