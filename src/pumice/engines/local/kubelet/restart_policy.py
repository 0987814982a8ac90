"""Decides whether a container that ended restarts, and after which back-off.

The first back-off is one second instead of Kubernetes' ten: the user waits at the machine, which is not shared. It
doubles up to Kubernetes' five minutes, and starts over after ten minutes without a failure, as there.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pumice.model.job import Manifest

FIRST_BACK_OFF: Final = 1.0
LONGEST_BACK_OFF: Final = 300.0
RECOVERED_AFTER: Final = 600.0


def restarts(container: Manifest, policy: str, code: int) -> bool:
    """Apply the container's own rules, then its own policy, then the pod's."""
    for rule in container.get("restartPolicyRules") or []:
        codes = rule.get("exitCodes") or {}
        if (code in (codes.get("values") or [])) is (codes.get("operator") == "In"):
            return True
    match container.get("restartPolicy") or policy:
        case "Always":
            return True
        case "OnFailure":
            return code != 0
        case _:
            return False


class BackOff(Struct):
    _next: float = FIRST_BACK_OFF

    def after(self, ran: float) -> float:
        """Return how long to wait after a container ran this many seconds."""
        if ran >= RECOVERED_AFTER:
            self._next = FIRST_BACK_OFF
        wait = self._next
        self._next = min(wait * 2, LONGEST_BACK_OFF)
        return wait
