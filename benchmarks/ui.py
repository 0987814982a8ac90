"""The cost of the page with 200 runs, one of which has 1,000 pods and is active.

Printed: how long the list, the job and its endpoints take, the memory of `pumice ui` after that, and the processor time
that it uses while nothing happens but two open streams, one of the list and one of the job. The limits are 100 MiB and
2 % of a core.
"""

from __future__ import annotations

import datetime as dt
import http
import http.client
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from pumice.store.files.run_store import RunStore
from scripts.made_runs import Ends, RunMaker, Story, Try
from scripts.made_stories import bert, sweep
from scripts.measuring import memory, processor_seconds, running_page

_RUNS = 200
_PODS = 1000
_IDLE = 20.0  # seconds
_MEMORY = 100  # MiB
_BUSY = 2.0  # per cent
_ENDPOINTS = (
    "timeline",
    "pods",
    "metrics",
    "logs",
    "logs/volume",
    "logs/search?q=epoch",
    "events",
    "rendered",
    "policies",
)


def main() -> int:
    with tempfile.TemporaryDirectory() as home:
        uid = _make(Path(home))
        environ = {**os.environ, "XDG_STATE_HOME": home, "XDG_RUNTIME_DIR": home}
        with running_page(environ) as page:
            return measure(page, uid, _ENDPOINTS, (_MEMORY, _BUSY))


def _make(home: Path) -> str:
    maker = RunMaker(RunStore(home / "pumice"), home / "jobs", dt.datetime.now(dt.UTC))
    ends = [Ends("master-0", 5.2), Ends("worker-0", 5.0), Ends("worker-1", 5.1)]
    begin = time.monotonic()
    for number in range(_RUNS - 2):
        maker.make(Story("pytorch-job", [Try(6.0, ends)], "Completed", 3600.0 + 60 * number))
    maker.make(bert())
    uid = maker.make(sweep(_PODS)).record.uid
    print(f"made {_RUNS} runs and {_PODS} pods in {time.monotonic() - begin:.1f} s")
    return uid


def measure(page: tuple[int, str], uid: str, endpoints: Sequence[str], limits: tuple[int, float]) -> int:
    """Print what the page costs; return 1 if it exceeds the limits, in MiB and in per cent of a core."""
    (pid, url), (most_memory, most_busy) = page, limits
    address = urlsplit(url)
    cookie = _request(address.netloc, f"{address.path}?{address.query}", "").headers["Set-Cookie"].partition(";")[0]
    targets = [
        "/",
        "/api/jobs",
        f"/jobs/{uid}",
        f"/api/jobs/{uid}",
        *(f"/api/jobs/{uid}/{name}" for name in endpoints),
    ]
    for target in targets:
        times = []
        for _ in range(2):
            begin = time.monotonic()
            answer = _request(address.netloc, target, cookie)
            size = len(answer.read())
            times.append(time.monotonic() - begin)
            if answer.status != http.HTTPStatus.OK:
                raise SystemExit(f"{target}: {answer.status}")
        name, first, again = target.replace(uid, "UID"), *(each * 1000 for each in times)
        print(f"{name:<40} first {first:7.0f} ms, again {again:6.0f} ms, {size} bytes")
    streams = [_request(address.netloc, f"/api/stream{query}", cookie) for query in ("", f"?job={uid}")]
    for stream in streams:
        while b"event: beat" not in stream.readline():
            pass
    used = memory(pid)
    before, begin = processor_seconds(pid), time.monotonic()
    time.sleep(_IDLE)
    busy = 100 * (processor_seconds(pid) - before) / (time.monotonic() - begin)
    print(f"memory {used:.0f} MiB (limit {most_memory}), ", end="")
    print(f"processor while idle {busy:.2f} % of a core (limit {most_busy:g})")
    return 0 if used < most_memory and busy < most_busy else 1


def _request(host: str, target: str, cookie: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("GET", target, headers={"Cookie": cookie} if cookie else {})
    return connection.getresponse()


if __name__ == "__main__":
    sys.exit(main())
