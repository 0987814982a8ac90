"""Files that are broken, hostile or huge: reading ends soon, with a message and a position."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from pumice.model.problem import Position, Problem
from pumice.yaml.documents import read
from pumice.yaml.reader import MAX_PROBLEMS, parse
from pumice.yaml.source import MAX_BYTES
from tests.conftest import SOAK, seed

MEGABYTE = 1_000_000


def problems_of(tmp_path: Path, content: bytes | str) -> list[str]:
    """The problems of a file with this content, as `line:column: message`."""
    file = tmp_path / "job.yaml"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    _, problems = read(str(file))
    assert all(problem.where.file == str(file) for problem in problems)
    return [str(problem).removeprefix(f"{file}:") for problem in problems]


LIST_HINT = "keys of one mapping, and items of one list, must start in the same column"


@pytest.mark.parametrize(
    ("text", "expected", "hint"),
    [
        pytest.param(
            "a: [1, 2\nb: 3\n",
            "2:2: expected ',' or ']' (while reading the list in [ ] that begins on line 1)",
            "close the list with ], or separate its items with commas",
            id="list not closed",
        ),
        pytest.param(
            "a: {b: 1\n",
            "2:1: expected ',' or '}' (while reading the mapping in { } that begins on line 1)",
            "close the mapping with }, or separate its entries with commas",
            id="mapping not closed",
        ),
        pytest.param("a:\n\tb: 1\n", "2:1: a tab is used for indentation", "indent with spaces", id="tab"),
        pytest.param(
            "a: b\n\tc: d\n",
            "2:1: a tab is used for indentation (while reading the value that begins on line 1)",
            "indent with spaces",
            id="tab below a value",
        ),
        pytest.param(
            "a: 'x\nb: 1\n",
            "3:1: the file ends before the closing quote (while reading the quoted text that begins on line 1)",
            "close the quote",
            id="quote not closed",
        ),
        pytest.param(
            "a: 'x\n---\nb: 1\n",
            "2:1: a new document begins before the closing quote (while reading the quoted text that begins on line 1)",
            "close the quote",
            id="quote not closed before the next document",
        ),
        pytest.param(
            "command: echo: hi\n",
            "1:14: a ':' where no key is allowed",
            "check the indentation, or quote a value that contains ': '",
            id="colon in a value",
        ),
        pytest.param(
            "a:\n  b: 1\n c: 2\n",
            "3:2: the indentation fits no key before it (while reading the mapping that begins on line 1)",
            LIST_HINT,
            id="indentation",
        ),
        pytest.param(
            "- a\nb: c\n",
            "2:1: neither an item of the list ('- ...') nor its end (while reading the list that begins on line 1)",
            LIST_HINT,
            id="key after a list",
        ),
        pytest.param(
            "a: - b\n",
            "1:4: a list item where none is allowed",
            "start the list on a line of its own, below its key",
            id="list behind a key",
        ),
        pytest.param(
            "a: 1\nb\nc: 2\n",
            "3:1: could not find the ':' that belongs after a key (while reading the key that begins on line 2)",
            "write it as key: value, with a space after the ':'",
            id="key without a colon",
        ),
        pytest.param(
            "a: @x\n",
            "1:4: a value cannot begin with this character",
            "put the text in quotes",
            id="reserved character",
        ),
        pytest.param(
            'a: "\\q"\n',
            "1:5: no such escape in double quotes (while reading the quoted text that begins here)",
            "write \\\\ for a backslash, or use single quotes",
            id="escape",
        ),
        pytest.param(
            'a: "\\ud83d\\ude00"\n',
            "1:7: the escape is not a character (while reading the quoted text that begins here)",
            "write the character itself",
            id="surrogates as escapes",
        ),
        pytest.param("a: [,]\n", "1:5: a value is missing here", "put the text in quotes", id="missing value"),
        pytest.param(
            "a: |x\n  b\n",
            "1:5: only a comment may follow here (while reading the text block that begins here)",
            "start the text on the next line",
            id="text behind a block's mark",
        ),
        pytest.param("a: !e!x 1\n", "1:4: the tag is not accepted", "remove it", id="tag with an unknown handle"),
        pytest.param(
            "a\n--- b: c\n---\n[]]\n",
            "2:6: a ':' where no key is allowed",
            "check the indentation, or quote a value that contains ': '",
            id="in the second document",
        ),
        pytest.param(
            "[]\nb: 1\n",
            "2:1: text after the end of the document",
            "separate documents with a line ---",
            id="text after the end",
        ),
        pytest.param(
            "a: 1\r\nb: [\r\n",
            "3:1: the file ends where a value must follow",
            "close every [ and { that is open",
            id="CRLF",
        ),
        pytest.param(
            "%YAML 1.1\n%YAML 1.1\n---\na: 1\n",
            "2:1: found duplicate %YAML directive",
            "",
            id="another message of the parser",
        ),
    ],
)
def test_broken_syntax(tmp_path: Path, text: str, expected: str, hint: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_bytes(text.encode())
    _, [problem] = read(str(file))
    assert (str(problem).removeprefix(f"{file}:"), problem.hint) == (expected, hint)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a: [1, 2\nb: 3\n", "f:2:2: expected ',' or ']'", id="list not closed"),
        pytest.param("a:\n\tb: 1\n", "f:2:1: a tab is used for indentation", id="tab"),
        pytest.param("a: 'x\n", "f:2:1: the file ends before the closing quote", id="quote not closed"),
        pytest.param("a: b: c\n", "f:1:5: a ':' where no key is allowed", id="colon in a value"),
        pytest.param("a:\n  b: 1\n c: 2\n", "f:3:2: the indentation fits no key before it", id="indentation"),
        pytest.param('a: "\\q"\n', "f:1:6: no such escape in double quotes", id="escape"),
        pytest.param('a: "\\ud800"\n', "f:1:4: half of a surrogate pair is not a character", id="surrogate"),
        pytest.param('a: "\\UFFFFFFFF"\n', "f:1:1: an escape after this is not a character", id="beyond Unicode"),
        pytest.param("a: \x00\n", "f:1:4: a character that is not allowed in YAML", id="characters"),
    ],
)
def test_the_python_parser_reports_the_same(text: str, expected: str) -> None:
    _, [problem] = parse(text, "f", yaml.Loader)
    assert str(problem).startswith(expected)


TAGS = "remove it; accepted are !!str, !!int, !!float, !!bool, !!null, !!map and !!seq"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "a: 1\nb: 2\na: 3\n", ["3:1: key a is given twice: on line 1 and again on line 3"], id="equal keys"
        ),
        pytest.param(
            "a: {b: 1, b: 2, b: 3}\n",
            [
                "1:11: key b is given twice: on line 1 and again on line 1",
                "1:17: key b is given twice: on line 1 and again on line 1",
            ],
            id="equal keys, thrice",
        ),
        pytest.param(
            "x: !!python/object/apply:os.system ['touch /tmp/x']\n",
            ["1:4: tag !!python/object/apply:os.system is not accepted"],
            id="tag that would run code",
        ),
        pytest.param("x: !!binary aGk=\n", ["1:4: tag !!binary is not accepted"], id="binary"),
        pytest.param("x: !!timestamp 2001-01-01\n", ["1:4: tag !!timestamp is not accepted"], id="timestamp"),
        pytest.param("x: !!set {a}\n", ["1:4: tag !!set is not accepted"], id="set"),
        pytest.param("x: !mine {a: 1}\n", ["1:4: tag !mine is not accepted"], id="own tag"),
        pytest.param("x: !!str {a: 1}\n", ["1:4: tag !!str is not accepted"], id="tag of another kind"),
        pytest.param("x: !!int abc\n", ["1:4: abc does not fit its tag !!int"], id="tag that does not fit"),
        pytest.param("x: .inf\n", ["1:4: .inf: Kubernetes has no such number"], id="infinite"),
        pytest.param("1: x\n", ["1:1: 1 without quotes is a number in YAML, and a key must be a string"], id="number"),
        pytest.param("y: x\n", ["1:1: y without quotes means true in YAML, and a key must be a string"], id="y"),
        pytest.param("off: x\n", ["1:1: off without quotes means false in YAML, and a key must be a string"], id="off"),
        pytest.param("~: x\n", ["1:1: ~ without quotes means null in YAML, and a key must be a string"], id="null"),
        pytest.param("? \n: x\n", ["1:2: an empty key means null in YAML, and a key must be a string"], id="empty key"),
        pytest.param("? [a]\n: x\n", ["1:3: a list or a mapping cannot be a key"], id="list as key"),
        pytest.param("{a: 1}: x\n", ["1:1: a list or a mapping cannot be a key"], id="mapping as key"),
        pytest.param(
            "a: &k [1]\n*k : x\n",
            ["2:1: *k is a list or a mapping, which cannot be a key"],
            id="alias of a list as key",
        ),
        pytest.param(
            "a: *x\n", ["1:4: alias *x: the document has no anchor of this name before it"], id="unknown alias"
        ),
        pytest.param("a: &x [*x]\n", ["1:8: alias *x is inside its own anchor"], id="endless value"),
        pytest.param(
            "a: &x {<<: *x}\n",
            ["1:12: alias *x is inside its own anchor", "1:8: << takes a mapping, an alias of one, or a list of these"],
            id="endless merge",
        ),
        pytest.param(
            "<<: 1\n", ["1:1: << takes a mapping, an alias of one, or a list of these"], id="merge of a number"
        ),
        pytest.param(
            "<<: [{a: 1}, 2]\n", ["1:1: << takes a mapping, an alias of one, or a list of these"], id="merge of a list"
        ),
        pytest.param(
            "a: &l [{b: 1}]\nc: {<<: *l}\n",
            ["2:5: << takes a mapping, an alias of one, or a list of these"],
            id="merge of an alias of a list",
        ),
        pytest.param("", ["1:1: the file is empty"], id="empty"),
        pytest.param("\n# only\n---\n---\n...\n", ["1:1: the file is empty"], id="comments and empty documents"),
        pytest.param("~\n", ["1:1: the file is empty"], id="null"),
        pytest.param(b"a: 1\nb: \x00\n", ["2:4: a NUL byte is not allowed in YAML"], id="NUL"),
        pytest.param(b"a: \x1b[0m\n", ["1:4: the control character U+001B is not allowed in YAML"], id="escape code"),
        pytest.param(b"a: 1\r\nb: \xe9\n", ["2:4: byte 0xe9 at offset 9 is not UTF-8"], id="Latin-1"),
        pytest.param(b"a: \xed\xa0\x80\n", ["1:4: byte 0xed at offset 3 is not UTF-8"], id="lone surrogate"),
        pytest.param(b"\xff\xfea\x00:\x00\x00\xd8", ["1:3: byte 0x00 at offset 6 is not UTF-16"], id="broken UTF-16"),
        pytest.param(b"\xef\xbb\xbfa: \xff", ["1:4: byte 0xff at offset 6 is not UTF-8"], id="broken after a mark"),
    ],
)
def test_problems_are_collected(tmp_path: Path, text: str | bytes, expected: list[str]) -> None:
    assert problems_of(tmp_path, text) == expected


def test_hints(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("on: 1\na: !x 1\n")
    assert [problem.hint for problem in read(str(file))[1]] == ['quote it: "on":', TAGS]


def test_no_code_is_run(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    problems_of(tmp_path, f"!!python/object/apply:os.system ['touch {trace}']\n")
    assert not trace.exists()


def test_a_missing_file(tmp_path: Path) -> None:
    missing = str(tmp_path / "gone.yaml")
    assert read(missing) == ([], [Problem("no such file", "check the spelling", Position(missing))])
    (tmp_path / "job.yaml").touch()
    assert read(str(tmp_path / "job.yml"))[1][0].hint == f"did you mean {tmp_path / 'job.yaml'}?"
    assert read(str(tmp_path / "job.yaml" / "job.yaml"))[1][0].hint == ""
    deeper = str(tmp_path / "gone" / "job.yaml")
    assert read(deeper)[1][0].hint == f"the directory {tmp_path / 'gone'} does not exist either"
    assert str(read(deeper)[1][0]) == f"{deeper}: no such file"
    (tmp_path / "link.yaml").symlink_to("old.yaml")
    assert read(str(tmp_path / "link.yaml"))[1][0].hint == "it is a link to old.yaml, which does not exist"


def test_a_directory(tmp_path: Path) -> None:
    [problem] = read(str(tmp_path))[1]
    assert (problem.message, problem.hint) == ("is a directory, not a file", "name the YAML file in it")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("a\0b", "not the name of a file", id="NUL in the name"),
        pytest.param("", "no such file", id="no name"),
        pytest.param("x" * 5000, "cannot be read: file name too long", id="long name"),
    ],
)
def test_invalid_file_names(name: str, message: str) -> None:
    assert [problem.message for problem in read(name)[1]] == [message]


def test_a_file_without_read_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may read everything, so the refusal itself is what is put in place here.
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    [problem] = read(str(tmp_path / "job.yaml"))[1]
    assert problem.message == "permission denied"


def test_reading_of_an_endless_device_stops() -> None:
    [problem] = read(os.devnull.replace("null", "zero"))[1]
    assert str(problem) == f"/dev/zero:1:{MAX_BYTES + 1}: larger than 4 MiB: reading stops here"


def test_problems_are_limited(tmp_path: Path) -> None:
    problems = problems_of(tmp_path, "- !x 1\n" * 1000)
    assert len(problems) == MAX_PROBLEMS + 1
    assert problems[-1] == "100:3: 100 problems so far: reading stops here"


def _laughs() -> bytes:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(lines).encode()


def _merge_bomb() -> bytes:
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}" for n in range(1, 60)]
    return "\n".join(lines).encode()


DEEP = "nested more than 100 levels deep"
MANY = "more than 500,000 values, with aliases expanded"
LARGE = "larger than 4 MiB: reading stops here"

# Each content with the first problem; None for a valid file.
HEAVY: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "as deep as may be": (lambda: b"[" * 100 + b"]" * 100, None),
    "as many values as may be": (lambda: b"- 1\n" * 499_999, None),
    "as large as may be": (lambda: b"a: '" + b"x" * (MAX_BYTES - 5) + b"'", None),
    "as many tag directives as may be": (lambda: b"".join(b"%%TAG !a%d! b\n" % n for n in range(100)) + b"--- x", None),
    "1 MB of [": (lambda: b"[" * MEGABYTE, f"1:101: {DEEP}"),
    "1 MB of {a: ": (lambda: b"{a: " * (MEGABYTE // 4), f"1:401: {DEEP}"),
    "1 MB of - ": (lambda: b"- " * (MEGABYTE // 2), f"1:201: {DEEP}"),
    "1 MB of ? ": (lambda: b"? " * (MEGABYTE // 2), f"1:201: {DEEP}"),
    "deep blocks": (lambda: b"".join(b" " * n + b"a:\n" for n in range(1400)), f"101:101: {DEEP}"),
    "chain of aliases": (
        lambda: b"a0: &a0 [x]\n" + b"".join(b"a%d: &a%d [*a%d]\n" % (n, n, n - 1) for n in range(1, 999)),
        f"100:12: {DEEP} through alias *a98",
    ),
    "billion laughs": (_laughs, f"6:40: {MANY}"),
    "merged laughs": (_merge_bomb, f"17:23: {MANY}"),
    "quadratic aliases": (lambda: b"a: &a [" + b"x," * 50_000 + b"]\nb: [" + b"*a," * 50_000, f"2:29: {MANY}"),
    "wide merges": (
        lambda: b"a: &a {" + b", ".join(b"k%d: 1" % n for n in range(20_000)) + b"}\nb:\n" + b"- <<: *a\n" * 50_000,
        f"25:7: {MANY}",
    ),
    "5 MB of one scalar": (lambda: b"a: " + b"x" * 5 * MEGABYTE, f"1:{MAX_BYTES + 1}: {LARGE}"),
    "5 MB of one list": (lambda: b"[" + b"1, " * (5 * MEGABYTE // 3), f"1:{MAX_BYTES + 1}: {LARGE}"),
    "5 MB of one key": (lambda: b"k" * 5 * MEGABYTE + b": 1", f"1:{MAX_BYTES + 1}: {LARGE}"),
    "4 MB of one scalar": (lambda: b"a: " + b"x" * 4 * MEGABYTE, None),
    "4 MB of digits": (lambda: b"a: " + b"1" * 4 * MEGABYTE, None),
    "4 MB of one list": (lambda: b"[" + b"1, " * (4 * MEGABYTE // 3) + b"]", f"1:1499999: {MANY}"),
    "4 MB of one key": (lambda: b"k" * 4 * MEGABYTE + b": 1", "1:4000001: a ':' where no key is allowed"),
    "4 MB of items": (lambda: b"- a\n" * MEGABYTE, f"500000:3: {MANY}"),
    "4 MB of quotes": (lambda: b"a: '" + b"'" * 4 * MEGABYTE, "1:4000005: the file ends before the closing quote"),
    "4 MB of escapes": (lambda: b'a: "' + b"\\u0041" * (4 * MEGABYTE // 6) + b'"', None),
    "4 MB of comments": (lambda: b"#\n" * 2 * MEGABYTE, "1:1: the file is empty"),
    "4 MB of blank lines in a block": (lambda: b"a: |\n" + b"\n" * 4 * MEGABYTE, None),
    "100,000 documents": (lambda: b"---\n" * 100_000, "1:1: the file is empty"),
    "100,000 anchors": (lambda: b"".join(b"- &a%d 1\n" % n for n in range(100_000)), None),
    "4 MB of anchors": (lambda: b"a: " + b"&a " * (4 * MEGABYTE // 3), "1:7: the indentation fits no key before it"),
    "4 MB of one anchor": (lambda: b"&" + b"a" * 4 * MEGABYTE + b" x", None),
    "200,000 tag directives": (
        lambda: b"".join(b"%%TAG !a%d! b\n" % n for n in range(200_000)) + b"--- x",
        "101:1: more than 100 %TAG lines",
    ),
    "4 MB of equal keys": (lambda: b"a: 1\n" * (4 * MEGABYTE // 5), "2:1: key a is given twice"),
}
if not SOAK:
    # Each takes half as long as all others together; "4 MB of items" has as many values.
    del HEAVY["as many values as may be"], HEAVY["4 MB of one list"]
    HEAVY = dict(list(HEAVY.items())[seed() % 2 :: 2])

# Each file has 40 seconds of processor time and a gigabyte. The limits are wide: they detect growth without bound.
_CHILD = """\
import pathlib, resource, signal, sys
from pumice.yaml.documents import read
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
for file in sys.argv[1:]:
    print(pathlib.Path(file).stem, end="\\t", flush=True)
    signal.setitimer(signal.ITIMER_PROF, 40)
    problems = read(file)[1]
    print(str(problems[0]).removeprefix(f"{file}:") if problems else "fine", flush=True)
"""


def test_huge_files_need_little_time_and_memory(tmp_path: Path) -> None:
    for name, (content, _) in HEAVY.items():
        (tmp_path / f"{name}.yaml").write_bytes(content())
    files = [str(tmp_path / f"{name}.yaml") for name in HEAVY]
    child = subprocess.run([sys.executable, "-c", _CHILD, *files], capture_output=True, text=True, check=False)
    said = dict(line.split("\t", 1) for line in child.stdout.splitlines())
    assert child.returncode == 0, f"{list(said)[-1]}: {child.stderr}"
    wrong = {name: said[name] for name, (_, expected) in HEAVY.items() if not said[name].startswith(expected or "fine")}
    assert wrong == {}
