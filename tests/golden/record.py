"""Records goldens: `python -m tests.golden.record show|new|fold|all`. README.md says when each is allowed."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.golden.changes import HEAD, TABLE, changed, differences, read_rows
from tests.golden.collect import gather
from tests.golden.sections import EXPECTED, read_goldens, write_golden

_SHOWN = 3  # goldens that are named


def show() -> int:
    """Print which words have changed, how often and where: for rows that say a rule, not each of its results."""
    wanted, _ = changed(read_goldens(), read_rows())
    for old, new, goldens in differences(wanted, _now()):
        places = list(dict.fromkeys(goldens))
        more = f" and {len(places) - _SHOWN} more" if len(places) > _SHOWN else ""
        print(f"{len(goldens)} times in {', '.join(places[:_SHOWN])}{more}\n  - {old}\n  + {new}")
    return 0


def fold() -> int:
    """Apply all rows to the goldens and empty the table. What is shown is not looked at: nothing else can slip in."""
    rows = read_rows()
    found, unused = changed(read_goldens(), rows)
    for row in unused:
        print(f"changes nothing: {row}", file=sys.stderr)
    if unused:
        return 1
    for name, sections in found.items():
        write_golden(name, sections)
    TABLE.write_text(HEAD)
    print(f"{len(rows)} rows folded")
    return 0


def new() -> int:
    """Write goldens and sections that are missing; those that exist stay as they are."""
    recorded = read_goldens() if EXPECTED.exists() else {}
    for name, sections in _now().items():
        known = recorded.get(name, {})
        added = [title for title in sections if title not in known]
        # In the order in which they are shown now; what is no longer shown stays for the test to find.
        merged = {title: known.get(title, text) for title, text in sections.items()} | known
        if added:
            write_golden(name, merged)
            print(f"{name}: {len(added)} sections")
    return 0


def all_anew() -> int:
    """Write everything as it is now, and forget the goldens and the table."""
    found = _now()
    shutil.rmtree(EXPECTED, ignore_errors=True)
    for name, sections in found.items():
        write_golden(name, sections)
    TABLE.write_text(HEAD)
    print(f"{len(found)} goldens; look at `git diff --stat tests/golden/expected` before you commit them")
    return 0


def _now() -> dict[str, dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        gather(Path(folder))
        return read_goldens(Path(folder))


if __name__ == "__main__":
    actions = {"show": show, "new": new, "fold": fold, "all": all_anew}
    if len(sys.argv) != 2 or sys.argv[1] not in actions:
        sys.exit(f"usage: python -m tests.golden.record {'|'.join(actions)}")
    sys.exit(actions[sys.argv[1]]())
