"""Probes and lifecycle hooks of containers: each has exactly one handler, and valid numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.checks import at_most_one, one_of, port_number, required, spelled, within
from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import Finding
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import http_header_error, port_name_error
from pumice.model.text import listed

PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_COUNTS: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_DEFAULT_GRACE: Final = 30

_PLAIN_SIGNALS: Final = (
    "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP SYS TERM TRAP "
    "TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX"
)
_SIGNALS: Final = (
    *(f"SIG{name}" for name in _PLAIN_SIGNALS.split()),
    *(f"SIGRTMIN+{number}" for number in range(1, 16)),
    *(f"SIGRTMAX-{number}" for number in range(1, 15)),
)


def check_probes(container: View) -> Iterator[Finding]:
    for key in PROBES:
        probe = container.child(key)
        if probe is None:
            continue
        yield from _check_handler(probe, _PROBE_HANDLERS)
        for count in _COUNTS:
            yield from within(probe, count, 0)
        if key == "readinessProbe":
            if probe.has("terminationGracePeriodSeconds"):
                yield probe.error("terminationGracePeriodSeconds", "cannot be set for a readinessProbe")
            continue
        yield from within(probe, "terminationGracePeriodSeconds", 1)
        # 0 means the default, which is 1; numbers below 0 are reported above.
        if (probe.number("successThreshold") or 0) > 1:
            yield probe.error("successThreshold", f"must be 1 for a {key}")


def check_lifecycle(container: View, spec: View) -> Iterator[Finding]:
    lifecycle = container.child("lifecycle")
    if lifecycle is None:
        return
    for key in ("postStart", "preStop"):
        hook = lifecycle.child(key)
        if hook is not None:
            yield from _check_handler(hook, _HOOK_HANDLERS)
            grace = spec.number("terminationGracePeriodSeconds")
            grace = _DEFAULT_GRACE if grace is None else grace
            if sleep := hook.child("sleep"):
                yield from within(sleep, "seconds", 0)
                if (sleep.number("seconds") or 0) > grace:
                    yield sleep.error("seconds", f"must not be above terminationGracePeriodSeconds, which is {grace}")
    signal = lifecycle.text("stopSignal")
    if lifecycle.has("stopSignal") and not spec.has("os"):
        yield lifecycle.error("stopSignal", "can only be set together with os.name", "set os.name: linux in the pod")
    elif lifecycle.has("stopSignal") and spec.part("os").text("name") == "linux" and signal not in _SIGNALS:
        hint = did_you_mean(signal, _SIGNALS)
        yield lifecycle.error("stopSignal", "must be the name of a signal on linux, such as SIGTERM", hint)


def _check_handler(view: View, kinds: tuple[str, ...]) -> Iterator[Finding]:
    given = [key for key in kinds if view.has(key)]
    if not given:
        yield Finding(view.at, f"must have one of {listed(kinds)}")
        return
    yield from at_most_one(view, kinds, "handler")
    handler = view.child(given[0])
    if handler is None:
        return
    if given[0] == "exec":
        if not handler.get("command"):
            yield handler.missing("command")
    elif given[0] == "httpGet":
        yield from _check_http(handler)
    elif given[0] == "tcpSocket":
        yield from _check_port(handler)
    elif given[0] == "grpc":
        yield from required(handler, "port")
        yield from port_number(handler, "port")
        yield from one_of(handler, "mode", ("Plaintext", "TLS"), blank_is_unset=False)


def _check_http(handler: View) -> Iterator[Finding]:
    yield from _check_port(handler)
    yield from one_of(handler, "scheme", ("HTTP", "HTTPS"))
    for header in handler.children("httpHeaders"):
        yield from required(header, "name")
        yield from spelled(header, "name", http_header_error)
    yield from one_of(handler, "protocol", ("HTTP1", "HTTP2"), blank_is_unset=False)
    if handler.text("protocol") == "HTTP2":
        if handler.text("scheme") not in {"", "HTTP"}:
            yield handler.error("protocol", "HTTP2 needs the scheme HTTP")
        elif handler.text("host"):
            yield handler.error("host", "cannot be set together with HTTP2")


def _check_port(handler: View) -> Iterator[Finding]:
    """Check a port by number or name; Kubernetes does not check that the name exists."""
    yield from required(handler, "port")
    yield from port_number(handler, "port")
    yield from spelled(handler, "port", port_name_error)
