"""Logs of the controller and the webhook: one line an event on standard error, as JSON or for reading."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Final

FORMATS: Final = ("text", "json")
LEVELS: Final = ("debug", "info", "warning", "error")


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
    if form == "json":
        handler.setFormatter(_JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # What these say at their own level is of no use to whoever runs a cluster.
    for noisy in ("asyncio", "aiohttp"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
