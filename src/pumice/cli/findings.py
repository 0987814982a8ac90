"""Output of findings: as text, with the hint on a line of its own, or as one JSON object per line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from pumice.client.reports import Report
from pumice.client.view.output import Style, fit


def write_reports(reports: Sequence[Report], out: TextIO, style: Style, *, as_json: bool = False) -> None:
    for report in reports:
        print(report.json() if as_json else fit(report.text(style.bold, style.warning), out), file=out)
