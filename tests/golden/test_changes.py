"""The table of wanted changes: rows that are applied, rows that are refused, and what a failure says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.changes import Row, changed, differences, read_rows, report
from tests.golden.dom import form_token, normalised
from tests.golden.page_views import formatted
from tests.golden.sections import join, split

GOLDENS = {
    "cli/done": {"$ pumice ps": "RUN PHASE\ndone:1 Completed\n", "$ pumice why done:1": "Completed\n"},
    "page/done": {"GET /": "<td>Completed</td>\n"},
}


def row(**fields: str) -> Row:
    return Row(**{"golden": "*", "after": "Succeeded", "why": "it is called so", **fields})


@pytest.mark.parametrize(
    ("one", "changes"),
    [
        pytest.param(row(before="Completed"), 3, id="everywhere"),
        pytest.param(row(before="Completed", golden="cli/*"), 2, id="some goldens"),
        pytest.param(row(before="Completed", section="$ pumice ps*"), 1, id="some sections"),
        pytest.param(row(pattern=r"^(\w+:1) Completed$", after=r"\1 Succeeded"), 1, id="pattern with a group"),
        pytest.param(row(before="RUN PHASE\ndone"), 1, id="several lines"),
        pytest.param(row(before="Failed"), 0, id="nothing"),
        pytest.param(row(before="Completed", golden="api/*"), 0, id="no golden"),
        pytest.param(row(before="Completed", after="Completed"), 0, id="the same again"),
    ],
)
def test_a_row_is_applied_where_it_says(one: Row, changes: int) -> None:
    found, unused = changed(GOLDENS, [one])
    different = [
        title for name, sections in found.items() for title in sections if sections[title] != GOLDENS[name][title]
    ]
    assert len(different) == changes
    assert unused == ([] if changes else [one])


def test_rows_are_applied_in_order() -> None:
    rows = [row(before="Completed"), row(before="Succeeded", after="Done")]
    found, unused = changed(GOLDENS, rows)
    assert (found["page/done"]["GET /"], unused) == ("<td>Done</td>\n", [])
    assert changed(GOLDENS, rows[::-1])[1] == [rows[1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("golden = '*'\nbefore = 'a'\nafter = 'b'", "missing required field `why`", id="no reason"),
        pytest.param("golden = '*'\nbefore = 'a'\nafter = 'b'\nwhy = 'D1'", "`why` is a sentence", id="short reason"),
        pytest.param("golden = '*'\nafter = 'b'\nwhy = 'a b'", "either `before` or `pattern`", id="neither"),
        pytest.param("golden = '*'\nbefore = 'a'\npattern = 'a'\nafter = ''\nwhy = 'a b'", "either", id="both"),
        pytest.param(
            "glob = '*'\ngolden = '*'\nbefore = 'a'\nafter = ''\nwhy = 'a b'", "unknown field `glob`", id="field"
        ),
    ],
)
def test_a_row_that_is_not_complete_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "changes.toml").write_text(f"[[change]]\n{text}\n")
    with pytest.raises(ValueError, match=message):
        read_rows(tmp_path / "changes.toml")


def test_a_failure_is_short_and_has_the_row_that_it_needs(tmp_path: Path) -> None:
    old = "".join(f"line {number}\n" for number in range(100))
    new = old.replace("line 50\n", "line 50, it's new\n").replace("line 77", "line seven")
    said = report("cli/done", {"$ pumice ps": old, "$ pumice top": ""}, {"$ pumice ps": new, "$ pumice new": ""})
    assert len(said.splitlines()) < 70
    assert "no longer there:\n  $ pumice top\n" in said
    assert "not recorded (python -m tests.golden.record new):\n  $ pumice new\n" in said
    assert "-line 77\n+line seven\n" in said
    (tmp_path / "changes.toml").write_text(said[said.index("[[change]]") :].replace('why = ""', 'why = "it is new"'))
    (one,) = read_rows(tmp_path / "changes.toml")
    assert (one.golden, one.section, one.before, one.after) == (
        "cli/done",
        "$ pumice ps",
        "line 50",
        "line 50, it's new",
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("a\nb\n", "a\nx\nb\n", id="a line more"),
        pytest.param("a\nb\nc\n", "a\nc\n", id="a line less"),
        pytest.param("a\nb\n", "x\na\nb\n", id="a first line more"),
        pytest.param("a\nb\n", "b\n", id="the first line less"),
        pytest.param("x\nsame\ny\nsame\n", "x\nsame\ny\nother\n", id="a line that occurs twice"),
        pytest.param("it's '''odd'''\n", "it's \x1b even\n", id="quotes and escapes"),
    ],
)
def test_the_row_of_a_failure_makes_it_pass(tmp_path: Path, old: str, new: str) -> None:
    said = report("cli/done", {"$ pumice ps": old}, {"$ pumice ps": new})
    (tmp_path / "changes.toml").write_text(said[said.index("[[change]]") :].replace('why = ""', 'why = "for a reason"'))
    found, unused = changed({"cli/done": {"$ pumice ps": old}}, read_rows(tmp_path / "changes.toml"))
    assert (found, unused) == ({"cli/done": {"$ pumice ps": new}}, [])


def test_differences_are_counted_by_words() -> None:
    now = {
        "cli/done": {"$ pumice ps": "RUN PHASE\ndone:1 Succeeded\n", "$ pumice why done:1": "Succeeded\n"},
        "page/done": {"GET /": "<td>Completed</td>\n<td>more</td>\n"},
    }
    assert differences(GOLDENS, now) == [
        ("Completed", "Succeeded", ["cli/done", "cli/done"]),
        ("", "<td>more</td>", ["page/done"]),
    ]


def test_sections_come_back_as_they_were_written() -> None:
    sections = {"$ pumice ps": "RUN\n\ndone:1\n", "$ pumice wait x": "", "GET /": "=not a title\n"}
    assert split(join(sections)) == sections


def test_the_dom_of_a_page_does_not_depend_on_how_it_is_written() -> None:
    one = '<title>a</title><main class="x" id=y>\n <p>two\n words<pre>as\nis</pre></p><br/></main>'
    other = "<title>a</title><main id='y' class='x'><p> two words <pre>as\nis</pre></p><br></main>"
    assert normalised(one) == normalised(other)
    assert normalised(one, whole=False).splitlines() == [
        "<title>a</title>",
        '<main class="x" id="y">',
        " <p>",
        "  two words",
        "  <pre>as&#10;is</pre>",
        " <br>",
    ]
    assert normalised(one) != normalised(one.replace("two", "three"))
    assert form_token('<meta content="t" name="pumice-token">') == "t"


def test_data_has_as_much_on_a_line_as_fits() -> None:
    value = {"short": [1, 2], "long": [{"name": "x" * 100, "n": n} for n in range(2)], "numbers": list(range(100))}
    lines = formatted(value).splitlines()
    assert lines[1] == ' "short": [1, 2],'
    assert lines[3] == f'  {{"name": "{"x" * 100}", "n": 0}},'
    assert (lines[6], lines[7][:8], len(lines)) == (' "numbers": [', "  0, 1, ", 12)
