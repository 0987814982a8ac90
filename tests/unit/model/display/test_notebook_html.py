from __future__ import annotations

from pumice.model.display.notebook_html import block, division, heading, paragraph, table
from tests.unit.notebook_cells import ESCAPED, HOSTILE, shown


def test_nothing_of_a_value_is_markup() -> None:
    parts = (heading(HOSTILE, HOSTILE), table([HOSTILE], [[HOSTILE]]), paragraph(HOSTILE), block(HOSTILE))
    assert shown(division(*parts)).count(ESCAPED) == 6


def test_what_is_empty_is_left_out() -> None:
    assert heading("ddp", "", "4 pods", "", "queue q") == "<p><b>ddp</b> 4 pods · queue q</p>"
    assert block("") == ""
    assert table(["a"], []).endswith("<tbody></tbody></table>")


def test_a_block_has_the_lines_of_its_text_and_a_cell_is_one_short_line() -> None:
    assert block("one\n  two") == "<pre>one\n  two</pre>"
    [cell] = shown(table([], [["x\n" * 1000]])).splitlines()
    assert cell.startswith("x\\nx")
    assert cell.endswith("...")
    assert len(cell) < 400
