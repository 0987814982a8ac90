"""Pages of the events of a run."""

from __future__ import annotations

from typing import Final

from pumice.store.history.event_log import EventLog
from pumice.ui.detail_values import Event, Events

_PAGE: Final = 200


def event_page(log: EventLog, before: int | None = None) -> Events:
    """Return the newest events, or those before a sequence number."""
    newest = [each for each in log.newest() if before is None or each.seq < before]
    items = tuple(
        Event(
            seq=each.seq,
            time=each.time,
            type=each.severity,
            reason=each.reason,
            message=each.message,
            pod=each.pods[0] if len(each.pods) == 1 else "",
            attempt=each.attempt,
            count=each.count,
            pods=tuple(each.pods),
        )
        for each in newest[:_PAGE]
    )
    return Events(total=log.total, items=items, after=items[-1].seq if len(newest) > _PAGE else None)
