"""Files that cannot be read, or hold strange things, through each command: a clear word, code 2, never a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.cli.jobfile import load
from pumice.runtime.offline_context import offline_context
from tests.unit.cli.running import JOB, Terminal, child, joined

COMMANDS = ("validate", "render", "explain")
NESTED = 100_000

# Content, and how the first line that is said about it begins.
BAD = [
    pytest.param("a: [1, 2\nb: 3\n", "job.yaml:2:2: expected ',' or ']'", id="broken YAML"),
    pytest.param("a:\n\tb: 1\n", "job.yaml:2:1: a tab is used for indentation", id="tab"),
    pytest.param(JOB + "kind: Job\n", "job.yaml:15:1: ", id="duplicate key"),
    pytest.param("a: " + "[" * NESTED, "job.yaml:1:", id="nesting"),
    pytest.param(
        "a: &a [x, x]\n"
        + "".join(f"{n}: &{n} [*{m}, *{m}, *{m}]\n" for m, n in zip("abcdefgh", "bcdefghi", strict=True)),
        "job.yaml:",
        id="a bomb of aliases",
    ),
    pytest.param(
        JOB.replace("image: busybox", "image: !!python/object/apply:os.getcwd busybox"),
        "job.yaml:14:18: tag !!python/object/apply:os.getcwd is not accepted",
        id="a tag that would run code",
    ),
    pytest.param("a: b\x00c\n", "job.yaml:1:5: a NUL byte", id="NUL"),
    pytest.param(b"a: \xff\xfe\n", "job.yaml:1:4: byte 0xff at offset 3 is not UTF-8", id="not UTF-8"),
    pytest.param("", "job.yaml:1:1: the file is empty", id="empty"),
    pytest.param("a" * 5_000_000, "job.yaml:1:4194305: larger than 4 MiB", id="5 MB on one line"),
    pytest.param("just words\n", "job.yaml:1:1: a document must be a mapping", id="text"),
    pytest.param("- a\n", "job.yaml:1:1: a document must be a mapping", id="list"),
    pytest.param("5\n", "job.yaml:1:1: a document must be a mapping", id="number"),
    pytest.param("*a\n", "job.yaml:1:1: ", id="alias of nothing"),
    pytest.param(JOB.replace("replicas: 2", "replicas: two"), "job.yaml:8: spec.tasks[0].replicas: two: ", id="type"),
    pytest.param(JOB.replace("replicas", "replica"), "job.yaml:8: spec.tasks[0].replica: unknown field", id="field"),
    pytest.param(JOB.replace("spec:\n  tasks", "1: 2\nspec:\n  tasks", 1), "job.yaml:5:1: 1 without quotes", id="key"),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("content", "expected"), BAD)
def test_bad_content(command: str, content: str | bytes, expected: str, terminal: Terminal) -> None:
    (terminal.folder / "job.yaml").write_bytes(content.encode() if isinstance(content, str) else content)
    result = terminal.run(command, "job.yaml")
    told = result.out if command == "validate" else result.err
    assert result.code == 2
    assert told.startswith(expected)
    assert "Traceback" not in result.err
    if command != "validate":
        assert result.out == ""
    assert all(len(line) < 300 for line in told.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("missing.yaml", "missing.yaml: no such file\n  hint: check the spelling\n", id="missing"),
        pytest.param(
            "no/where.yaml",
            "no/where.yaml: no such file\n  hint: the directory no does not exist either\n",
            id="folder",
        ),
        pytest.param(".", ".: is a directory, not a file\n  hint: name the YAML file in it\n", id="directory"),
        pytest.param("a\0b", "a\\x00b: not the name of a file\n", id="NUL in the name"),
    ],
)
def test_no_file(command: str, name: str, expected: str, terminal: Terminal) -> None:
    result = terminal.run(command, name)
    told = result.out if command == "validate" else result.err
    assert result.code == 2
    assert told.removesuffix("1 error\n") == expected


@pytest.mark.parametrize("command", COMMANDS)
def test_a_process_survives_the_worst(command: str, tmp_path: Path) -> None:
    """Nesting that exhausts the stack of a C parser would end this very process, were it not for the limits."""
    (tmp_path / "job.yaml").write_text("a: " + "{b: " * NESTED, encoding="utf-8")
    result = child(command, "job.yaml", cwd=tmp_path)
    assert result.code == 2
    assert "job.yaml:1:" in result.out + result.err
    assert "Traceback" not in result.err


MANY = 30_000

# What is wrong, or merely there, so often that anything which looks at all of it for each of it would take minutes.
SPECS = [
    pytest.param("tasks: [" + "~, " * MANY + "]", id="tasks that are null"),
    pytest.param("policies: [" + "1, " * MANY + "]", id="policies that are numbers"),
    pytest.param("plugins: {svc: [" + "1, " * MANY + "]}", id="arguments that are numbers"),
    pytest.param("plugins: {svc: ['" + "a " * 10 * MANY + "']}", id="an argument of many words"),
    pytest.param("{" + ", ".join(f"x{n}: 1" for n in range(MANY)) + "}", id="unknown fields"),
    pytest.param(
        "volumes: [" + ", ".join(f"{{mountPath: /{n}, volumeClaimName: c{n}}}" for n in range(MANY)) + "]", id="claims"
    ),
    pytest.param(
        "tasks: [" + ", ".join(f"{{name: t{n}, dependsOn: {{name: [t{n + 1}]}}}}" for n in range(MANY // 3)) + "]",
        id="a chain of tasks",
    ),
    pytest.param("networkTopology: {x: &x {mode: hard}, " + "<<: *x, " * MANY + "}", id="merge keys"),
]


@pytest.mark.parametrize("spec", SPECS)
def test_time_grows_no_faster_than_the_file(spec: str, tmp_path: Path) -> None:
    """The bound is wide, for a busy machine: what it catches takes many minutes."""
    (tmp_path / "job.yaml").write_text(f"{JOB.partition('spec:')[0]}spec:\n  {spec}\n", encoding="utf-8")
    result = child("validate", "job.yaml", cwd=tmp_path)
    assert result.code == 2
    assert "Traceback" not in result.err


def test_a_file_that_may_not_be_read(terminal: Terminal) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    file = terminal.write(JOB)
    (terminal.folder / file).chmod(0)
    result = terminal.run("validate", file)
    assert (result.code, result.out.splitlines()[0]) == (2, "job.yaml: may not be read by you")


def test_documents_are_sorted_by_what_they_are(terminal: Terminal) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\n"
    other = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    file = load(terminal.write(joined([secret, JOB, other])), offline_context())
    assert [entry.admitted.job.name for entry in file.jobs] == ["small"]
    assert [document.line for document in file.extra_objects] == [1]
    assert [str(report.severity) for report in file.reports] == ["warning"]
    assert file.is_good


def test_the_rest_of_a_broken_file_is_checked_too(terminal: Terminal) -> None:
    """A key that stands twice makes one value doubtful, not the whole file."""
    text = JOB.replace("replicas: 2", "replicas: -2") + "kind: Job\n"
    result = terminal.run("validate", terminal.write(text))
    assert [line.split(": ")[0] for line in result.out.splitlines() if line.startswith("job")] == [
        "job.yaml:8",
        "job.yaml:15:1",
    ]
