"""The logs of the controller and the webhook: one line per record on standard error, as JSON or as text."""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
import time
from dataclasses import dataclass
from typing import Final

from pumice.model.text import escaped

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")


@dataclass(slots=True)
class LogThrottle:
    """Limits how often a message is logged that many jobs may cause."""

    interval: dt.timedelta
    _last: dt.datetime | None = None

    def allows(self, now: dt.datetime) -> bool:
        if self._last is not None and abs(now - self._last) < self.interval:
            return False
        self._last = now
        return True


class _TextLines(logging.Formatter):
    """One line for each record, whatever its message quotes; a traceback follows it."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name that logging calls
        return escaped(super().formatMessage(record))


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name.removeprefix("pumice.engines.kubernetes."),
            "message": record.getMessage(),
        }
        job = getattr(record, "job", None)
        if job is not None:
            line["job"] = str(job)
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def set_up(level: str, form: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _TextLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # Below warnings, these libraries log nothing that helps to run a cluster.
    for noisy in ("asyncio", "aiohttp"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
