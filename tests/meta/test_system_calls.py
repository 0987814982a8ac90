from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from typing import Any

import pytest

from scripts.system_calls import ARCHITECTURES, FILE, GROUPS, differences, document

LISTED: dict[str, Any] = json.loads(FILE.read_bytes())
# Names and numbers that no kernel changes any more, to notice columns that were mixed up.
KNOWN = {"read": [0, 63, 63], "mount": [165, 40, 40], "open": [2, None, None], "renameat": [264, 38, None]}


def entry(*names: str, action: str = "SCMP_ACT_ALLOW", **more: Any) -> dict[str, Any]:
    return {"names": names, "action": action, **more}


def header(**numbers: int) -> str:
    return "#ifndef X\n" + "".join(f"#define __NR_{name} {number}\n" for name, number in numbers.items()) + "#endif\n"


def made(*entries: dict[str, Any]) -> dict[str, Any]:
    calls = {"read": 7, "kcmp": 3, "mount": 9, "bpf": 1, "chroot": 2, "openat2": 5, "socket": 4, "move_pages": 8}
    headers = [header(**calls), header(read=1, arch_specific_syscall=244), header()]
    text = document(entries, "origin", "2020-02-02", headers)
    parsed: dict[str, Any] = json.loads(text)
    return {group: list(parsed[group]) for group in GROUPS}


@pytest.mark.parametrize(
    ("entries", "group", "names"),
    [
        pytest.param([entry("read", "openat2")], "usual", ["read"], id="usual, except what a filter cannot read"),
        pytest.param([entry("chroot", includes={"caps": ["CAP_SYS_CHROOT"]})], "usual", ["chroot"], id="held"),
        pytest.param([entry("socket", args=[{"index": 0}])], "usual", ["socket"], id="with a known condition"),
        pytest.param(
            [entry("kcmp", includes={"caps": ["CAP_SYS_PTRACE"]})], "added", ["kcmp", "move_pages"], id="debugging"
        ),
        pytest.param(
            [entry("kcmp"), entry("kcmp", includes={"caps": ["CAP_SYS_PTRACE"]})], "usual", ["kcmp"], id="both"
        ),
        pytest.param([entry("mount", includes={"caps": ["CAP_SYS_ADMIN"]})], "privileged", ["mount"], id="privileged"),
        pytest.param(
            [entry("bpf", includes={"caps": ["CAP_BPF"]}), entry("read", action="SCMP_ACT_ERRNO")],
            "refused",
            ["bpf", "chroot", "kcmp", "openat2", "read", "socket"],
            id="refused",
        ),
    ],
)
def test_groups(entries: list[dict[str, Any]], group: str, names: list[str]) -> None:
    assert made(*entries)[group] == names


def test_a_new_condition_of_the_profile_is_an_error() -> None:
    with pytest.raises(SystemExit, match="a condition that the filter does not have: read"):
        made(entry("read", args=[{"index": 0}]))


def test_the_list_says_where_it_is_from() -> None:
    assert LISTED["origin"].startswith("https://github.com/moby/profiles/blob/")
    assert dt.date.fromisoformat(LISTED["date"]) >= dt.date(2026, 6, 30)
    assert list(LISTED) == ["origin", "date", "architectures", *GROUPS]
    assert tuple(LISTED["architectures"]) == ARCHITECTURES


def test_the_list_is_complete_and_has_every_number_once() -> None:
    rows = {name: row for group in GROUPS for name, row in LISTED[group].items()}
    assert len(rows) == sum(len(LISTED[group]) for group in GROUPS)
    assert {name: rows[name] for name in KNOWN} == KNOWN
    for column in range(len(ARCHITECTURES)):
        numbers = Counter(row[column] for row in rows.values() if row[column] is not None)
        assert (max(numbers.values()), min(numbers), max(numbers) < 600, len(numbers) > 300) == (1, 0, True, True)


def test_differences_from_a_header() -> None:
    same = header(**{name: row[0] for name, row in LISTED["usual"].items() if row[0] is not None})
    assert differences(LISTED, same) == []
    assert differences(LISTED, header(read=1, new=999)) == [
        "read: 1 in the header, 0 in the list",
        "new: 999 in the header, None in the list",
    ]
