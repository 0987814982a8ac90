from __future__ import annotations

import datetime as dt
import io
import json
from typing import Any

import pytest

from pumice.cli.jobfile import write_reports
from pumice.client.job_files import Report, counted, in_order
from pumice.client.view.output import Style
from pumice.model.findings import ABSENT, Severity

PLAIN = Style(coloured=False)
COLOURED = Style(coloured=True)


def report(**fields: Any) -> Report:
    position = {"file": "job.yaml", "line": 14, "column": 3, "path": "spec.x", "value": ABSENT}
    return Report(**{"severity": Severity.ERROR, **position, "message": "is wrong", "hint": "", **fields})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, "job.yaml:14: spec.x: is wrong", id="no value"),
        pytest.param({"value": -2}, "job.yaml:14: spec.x: -2: is wrong", id="number"),
        pytest.param({"value": "a b"}, "job.yaml:14: spec.x: a b: is wrong", id="text"),
        pytest.param({"value": ""}, 'job.yaml:14: spec.x: "": is wrong', id="empty text"),
        pytest.param({"value": True}, "job.yaml:14: spec.x: true: is wrong", id="boolean"),
        pytest.param({"value": None}, "job.yaml:14: spec.x: null: is wrong", id="null"),
        pytest.param({"value": ["a", 1]}, 'job.yaml:14: spec.x: ["a", 1]: is wrong', id="list"),
        pytest.param({"value": "a\nb\x1b[1m"}, "job.yaml:14: spec.x: a\\nb\\x1b[1m: is wrong", id="control characters"),
        pytest.param(
            {"path": "spec[a\nb]", "message": "\x1b[1m is wrong", "hint": "not\t\udcff"},
            "job.yaml:14: spec[a\\nb]: \\x1b[1m is wrong\n  hint: not\\t\\udcff",
            id="control characters in path, message and hint",
        ),
        pytest.param(
            {"file": "job\x1b.yaml"}, "job\\x1b.yaml:14: spec.x: is wrong", id="control characters in a file name"
        ),
        pytest.param({"message": "m" * 1001}, f"job.yaml:14: spec.x: {'m' * 997}...", id="very long message"),
        pytest.param({"value": "日本"}, "job.yaml:14: spec.x: 日本: is wrong", id="other scripts"),
        pytest.param({"value": "x" * 81}, f"job.yaml:14: spec.x: {'x' * 77}...: is wrong", id="long"),
        pytest.param({"value": "x" * 80}, f"job.yaml:14: spec.x: {'x' * 80}: is wrong", id="longest value that fits"),
        pytest.param({"value": dt.date(2026, 1, 1)}, 'job.yaml:14: spec.x: "2026-01-01": is wrong', id="date"),
        pytest.param({"hint": "do this"}, "job.yaml:14: spec.x: is wrong\n  hint: do this", id="hint"),
        pytest.param({"severity": Severity.WARNING}, "job.yaml:14: warning: spec.x: is wrong", id="warning"),
        pytest.param({"path": ""}, "job.yaml:14:3: is wrong", id="no path"),
        pytest.param({"path": "", "line": 0, "column": 0}, "job.yaml: is wrong", id="a file that cannot be opened"),
    ],
)
def test_text(fields: dict[str, Any], expected: str) -> None:
    assert report(**fields).text(PLAIN.bold, PLAIN.warning) == expected


def test_colour() -> None:
    text = report(severity=Severity.WARNING).text(COLOURED.bold, COLOURED.warning)
    assert text == "\x1b[1mjob.yaml:14\x1b[0m: \x1b[33mwarning: \x1b[0mspec.x: is wrong"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(ABSENT, None, id="none"),
        pytest.param("日本", "日本", id="text"),
        pytest.param([1, {"a": None}], [1, {"a": None}], id="structure"),
        pytest.param("x" * 5000, "x" * 2000, id="long text"),
        pytest.param(["x" * 5000], json.dumps(["x" * 5000])[:2000], id="large structure"),
        pytest.param(dt.date(2026, 1, 1), "2026-01-01", id="date"),
    ],
)
def test_json(value: object, expected: object) -> None:
    line = report(value=value).json()
    assert "\n" not in line
    assert list(json.loads(line)) == ["severity", "file", "line", "column", "path", "value", "message", "hint"]
    assert json.loads(line)["value"] == expected


def test_write_reports() -> None:
    out = io.StringIO()
    write_reports([report(), report(hint="x")], out, PLAIN)
    assert out.getvalue() == "job.yaml:14: spec.x: is wrong\njob.yaml:14: spec.x: is wrong\n  hint: x\n"


@pytest.mark.parametrize(
    ("errors", "warnings", "expected"),
    [(1, 0, "1 error"), (2, 1, "2 errors, 1 warning"), (0, 2, "2 warnings"), (0, 0, "")],
)
def test_counts(errors: int, warnings: int, expected: str) -> None:
    assert counted([report()] * errors + [report(severity=Severity.WARNING)] * warnings) == expected


def test_order() -> None:
    positions = [(3, 1, "a"), (1, 9, "b"), (1, 2, "c"), (1, 2, "d")]
    reports = [report(line=line, column=column, message=message) for line, column, message in positions]
    assert [one.message for one in in_order(reports)] == ["c", "d", "b", "a"]
