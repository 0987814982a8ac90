"""Output of findings and errors: as text, with the hint on a line of its own, or as one JSON object per line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from pumice.client.view.output import Style, fit
from pumice.model.problem import FLAGS

if TYPE_CHECKING:
    from pumice.client.reports import Report  # it loads the reader of YAML, which `ps` does not need


def write_reports(reports: Sequence[Report], out: TextIO, style: Style, *, as_json: bool = False) -> None:
    for report in reports:
        print(report.json() if as_json else fit(report.text(style.bold, style.warning), out), file=out)


def print_error(error: Exception) -> None:
    """Print an error, with options as flags."""
    from pumice.store.run_errors import RunError  # `validate` needs none of them

    print(error.text(FLAGS) if isinstance(error, RunError) else error, file=sys.stderr)
