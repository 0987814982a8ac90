from __future__ import annotations

import pytest

from pumice.admission.program import main_command
from pumice.admission.shell_script import changed_line, commands, count_arguments, uses_arguments


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param('python train.py "$@"', True, id="all"),
        pytest.param("python train.py $*", True, id="in one word"),
        pytest.param('python train.py "--lr=$1"', True, id="by number"),
        pytest.param('python train.py "${@:2}"', True, id="in braces"),
        pytest.param("while getopts x: name; do :; done", True, id="getopts"),
        pytest.param("python train.py", False, id="none"),
        pytest.param("python train.py '$@'", False, id="in single quotes"),
        pytest.param('echo "it\'s $@"', True, id="an apostrophe in double quotes"),
        pytest.param("python train.py # $@", False, id="in a comment"),
        pytest.param("echo a#$1", True, id="no comment"),
        pytest.param(r"echo \$1", False, id="after a backslash"),
        pytest.param("echo $# $? $HOME", False, id="others"),
    ],
)
def test_whether_a_script_uses_its_arguments(script: str, expected: bool) -> None:
    assert uses_arguments(script) is expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("a $1 ${2}", 2, id="two"),
        pytest.param("a ${12:-x} $3", 12, id="in braces"),
        pytest.param("a $1; shift; b $1", None, id="shift"),
        pytest.param("a --shift", 0, id="an option of this name"),
        pytest.param('a $1 "$@"', None, id="all"),
        pytest.param("for x; do echo $x; done", None, id="a loop"),
        pytest.param("for x do echo $x; done", None, id="a loop on one line"),
        pytest.param("for x\ndo echo $x; done", None, id="a loop on two lines"),
        pytest.param("for x in 1 2; do echo $x; done", 0, id="a loop over words"),
    ],
)
def test_how_many_arguments_a_script_reads(script: str, expected: int | None) -> None:
    assert count_arguments(script) == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("a 1; b 2 && c || d | e & f", ["a 1", "b 2", "c", "d", "e", "f"], id="operators"),
        pytest.param("(a; b)", ["a", "b"], id="a group"),
        pytest.param("a \\\n  --b\nc", ["a --b", "c"], id="lines"),
        pytest.param("a 'x; y' \"z | $(c; d)\" `e; f` ${g;h}", ["a x; y z | $(c; d) `e; f` ${g;h}"], id="quotes"),
        pytest.param("a # b; c\nd", ["a", "d"], id="comments"),
        pytest.param("a > log 2>&1 < in; b &> all", ["a", "b"], id="redirections"),
        pytest.param("cat <<EOF > x\nmade; of\nEOF\nb", ["cat", "b"], id="a here-document"),
        pytest.param("cat <<-'END'\n\tx\n\tEND\nb", ["cat", "b"], id="an indented one"),
        pytest.param("cat <<EOF\nnever ends", ["cat"], id="one that does not end"),
        pytest.param("cat <<< word; b", ["cat", "b"], id="a here-string"),
        pytest.param('a "open', ["a open"], id="an open quote"),
        pytest.param("", [], id="nothing"),
        pytest.param(";;\n", [], id="only operators"),
    ],
)
def test_the_commands_of_a_script(script: str, expected: list[str]) -> None:
    assert [" ".join(each.words) for each in commands(script)] == expected


@pytest.mark.parametrize(
    ("script", "line", "changed"),
    [
        pytest.param("python train.py --x", "python train.py --x", 'python train.py --x "$@"', id="the end"),
        pytest.param("python t.py | tee log", "python t.py | tee log", 'python t.py "$@" | tee log', id="a pipe"),
        pytest.param("a.sh; python t.py;", "a.sh; python t.py;", 'a.sh; python t.py "$@";', id="the last one"),
        pytest.param("python t.py > log", "python t.py > log", 'python t.py "$@" > log', id="a redirection"),
        pytest.param("cd /x\n  python t.py  # go\necho", "python t.py  # go", 'python t.py "$@"  # go', id="a line"),
        pytest.param("python t.py \\\n  --x 1 \\\n  --y 2\n", "--y 2", '--y 2 "$@"', id="several lines"),
        pytest.param("sleep 1", "sleep 1", 'sleep 1 "$@"', id="only a utility"),
        pytest.param(
            "while true; do sleep 1; done",
            "while true; do sleep 1; done",
            'while true; do sleep 1 "$@"; done',
            id="only utilities in a loop",
        ),
    ],
)
def test_the_line_that_would_use_them(script: str, line: str, changed: str) -> None:
    command = main_command(script)
    assert command is not None
    assert changed_line(script, command) == (line, changed)
