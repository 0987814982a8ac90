"""Records stories: `python -m tests.golden.recording [STORY]...` plays them and writes their archives.

Everything is real: pods, signals, the service, the minute of silence. All stories take about ten minutes.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import sys
import tempfile
from pathlib import Path

from pumice.store.files.owner_lock import boot_id
from tests.golden.scene import COPY, Story, open_scene
from tests.golden.store_archive import NOW, STORES, Disguise, pack, words_of
from tests.golden.stories import ENDED
from tests.golden.stories_live import LIVE

STORIES = (*ENDED, *LIVE)
# When the stories that ended began: the first ones are older than what `ps` lists without -a.
BEGIN = NOW - dt.timedelta(hours=30)
APART = dt.timedelta(minutes=30)


def record(story: Story) -> int:
    """Play a story and write its archive; return the size of that."""
    with tempfile.TemporaryDirectory(prefix="golden-") as made:
        root = Path(made)
        with open_scene(root) as scene:
            story.play(scene)
        records = [
            json.loads(path.read_bytes())
            for path in (root / COPY).glob("runs/*/*/1/run.json")
            if story.name != "unreadable"
        ]
        if story.live:
            seconds = NOW.timestamp() - math.ceil(scene.copied)
        else:
            first = min(dt.datetime.fromisoformat(each["created"]) for each in records)
            seconds = (BEGIN + ENDED.index(story) * APART).timestamp() - int(first.timestamp())
        words = words_of(root, sys.executable, boot_id())
        content = pack(root / COPY, Disguise(story.name, words, int(seconds)))
    STORES.mkdir(exist_ok=True)
    (STORES / f"{story.name}.tar.gz").write_bytes(content)
    return len(content)


def main(names: list[str]) -> None:
    # As on a machine of two CPUs: what waits there must wait on a larger one, too.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    for story in STORIES:
        if not names or story.name in names:
            print(f"{story.name}: {record(story)} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
