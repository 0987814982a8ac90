"""The status of a pod as a kubelet writes it."""

from __future__ import annotations

import datetime as dt

from tests.cluster.api import Object

HOST = "127.0.0.1"


def timestamp(time: dt.datetime | None = None) -> str:
    time = time or dt.datetime.now(dt.UTC)  # noqa: TID251 - a kubelet uses the real time
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def status(pod: Object, phase: str, containers: list[Object], *, address: str = "", reason: str = "") -> Object:
    """Return the whole status: a merge patch replaces lists, so each list must be complete."""
    ready = phase == "Running" and all(each["ready"] for each in containers)
    truths = {"PodScheduled": True, "Initialized": phase != "Pending", "ContainersReady": ready, "Ready": ready}
    before = {each["type"]: each for each in pod.get("status", {}).get("conditions") or []}
    written: Object = {
        "phase": phase,
        "conditions": [_condition(kind, truth, before.get(kind)) for kind, truth in truths.items()],
        "containerStatuses": containers,
        "hostIP": HOST,
        "startTime": pod.get("status", {}).get("startTime") or timestamp(),
    }
    if address:
        written |= {"podIP": address, "podIPs": [{"ip": address}]}
    if reason:
        written["reason"] = reason
    return written


def container_status(container: Object, state: Object, *, ready: bool = False, restarts: int = 0) -> Object:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": restarts,
        "state": state,
    }


def waiting(reason: str, message: str = "") -> Object:
    return {"waiting": {"reason": reason, "message": message}}


def running(since: str = "") -> Object:
    return {"running": {"startedAt": since or timestamp()}}


def terminated(code: int, *, reason: str = "", signal: int = 0, since: str = "", finished: str = "") -> Object:
    ended: Object = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error")}
    ended |= {"startedAt": since or timestamp(), "finishedAt": finished or timestamp()}
    return {"terminated": {**ended, "signal": signal} if signal else ended}


def _condition(kind: str, truth: bool, before: Object | None) -> Object:
    value = str(truth)
    same = before is not None and before["status"] == value
    since = before["lastTransitionTime"] if same and before is not None else timestamp()
    return {"type": kind, "status": value, "lastTransitionTime": since}
