"""The log of a finished run with 100,000 lines in Chromium: how long until its last line is on the screen.

It prints the fastest and the median of nine openings of the page. The limit of the fastest is 1 s; a machine under load
makes the others longer.
"""

from __future__ import annotations

import datetime as dt
import os
import shutil
import statistics
import tempfile
from pathlib import Path

from pumice.store.files.run_store import RunStore
from scripts.made_runs import Ends, RunMaker, Story, Try
from scripts.measuring import running_page, timed
from tests.page.browser import open_page, started, until

_LINES = 100_000
_ROUNDS = 9
_LIMIT = 1.0  # seconds
# Whether the last line is within the box of lines.
_SEEN = """(() => {
  const [row, box] = [document.querySelector("#lines .rows")?.lastElementChild, document.querySelector("#lines")];
  if (!row) return false;
  const [inner, outer] = [row, box].map((each) => each.getBoundingClientRect());
  return inner.height > 0 && inner.top >= outer.top - 1 && inner.bottom <= outer.bottom + 1;
})()"""


def main() -> int:
    if shutil.which("chromium") is None:
        print("chromium is not installed: nothing is measured")
        return 0
    with tempfile.TemporaryDirectory() as home:
        maker = RunMaker(RunStore(Path(home) / "pumice"), Path(home) / "jobs", dt.datetime.now(dt.UTC))
        ends = [Ends("master-0", 11.9), Ends("worker-0", 11.9), Ends("worker-1", 11.9)]
        uid = maker.make(Story("pytorch-job", [Try(12.0, ends)], lines=_lines)).record.uid
        environ = {**os.environ, "XDG_STATE_HOME": home, "XDG_RUNTIME_DIR": home}
        with running_page(environ) as (_, address):
            times = _open(address, uid)
    fastest, median = min(times), statistics.median(times)
    print(f"{_LINES:,} lines: fastest {fastest * 1000:.0f} ms, median {median * 1000:.0f} (limit {_LIMIT * 1000:.0f})")
    return 0 if fastest < _LIMIT else 1


def _lines(pod: str, _attempt: int) -> list[tuple[float, str, str]]:
    if pod != "master-0":
        return []
    batches = [range(begin, begin + 100) for begin in range(0, _LINES, 100)]
    return [(1 + i / 100, "stdout", "\n".join(f"epoch {n}" for n in batch)) for i, batch in enumerate(batches)]


def _open(address: str, uid: str) -> list[float]:
    times: list[float] = []
    with started() as browser:
        origin = address.partition("/open")[0]
        page = open_page(browser.new_context(viewport={"width": 1280, "height": 900}), origin).page
        page.goto(address)
        for _ in range(_ROUNDS):
            page.goto(origin)
            with timed(times):
                page.goto(f"{origin}/jobs/{uid}", wait_until="commit")
                until(page, _SEEN)
    return times


if __name__ == "__main__":
    raise SystemExit(main())
