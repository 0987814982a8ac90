"""Scrolling of the page with 1,000 pods: the longest task of the browser while the page and its log are scrolled.

It prints the longest task in milliseconds, and how many took longer than 50, as the browser reports them. The limit is
0. The values are made up, so that only the browser is measured; a machine under load makes tasks longer.
"""

from __future__ import annotations

import shutil

from tests.page.browser import open_page, started, until
from tests.page.sample_server import VIEWS, served

_LIMIT = 50
_OBSERVE = """
window.tasks = [];
new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((each) => each.duration)))
  .observe({ type: "longtask" });
"""
# A task that is too long, to see that it is reported.
_BLOCK = """
new Promise((done) => setTimeout(() => {
  const end = performance.now() + 80;
  while (performance.now() < end);
  setTimeout(done, 100);
}))
"""


def main() -> int:
    if shutil.which("chromium") is None:
        print("chromium is not installed: nothing is measured")
        return 0
    with served() as server, started() as browser:
        watched = open_page(browser.new_context(viewport={"width": 1600, "height": 900}), server.address)
        page = watched.page
        page.goto(server.address + VIEWS["job-1000"])
        until(page, "document.querySelector('#cells').height > 100 && !document.querySelector('#live.off')")
        page.evaluate(_OBSERVE)
        page.evaluate(_BLOCK)
        if not page.evaluate("window.tasks.length"):
            print("the browser reports no long task: nothing is measured")
            return 1
        for name, target in (("the page", ".meta"), ("the log", "#lines"), ("the cells", "#cells")):
            page.evaluate("window.tasks.length = 0")
            page.locator(target).hover()
            for step in range(120):
                page.mouse.wheel(0, 150 if step < 60 else -150)  # noqa: PLR2004 - down, then up
                page.wait_for_timeout(16)
            tasks = page.evaluate("window.tasks")
            longest = f"longest {max(tasks):.0f} ms" if tasks else "no task over 50 ms"
            print(f"1,000 pods, {name} scrolled: {longest}, {sum(each > _LIMIT for each in tasks)} over {_LIMIT} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
