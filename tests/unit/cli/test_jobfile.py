"""Bad files through each command: a message, exit code 2, never a traceback. tests/unit/yaml has more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.client.job_files import load
from pumice.runtime.offline_context import offline_context
from tests.unit.cli.running import JOB, Terminal, child, joined

COMMANDS = ("validate", "render", "explain")
NESTED = 100_000

# Content, and the beginning of the first message.
BAD = [
    pytest.param("a: [1, 2\nb: 3\n", "job.yaml:2:2: expected ',' or ']'", id="broken YAML"),
    pytest.param(JOB + "kind: Job\n", "job.yaml:15:1: ", id="duplicate key"),
    pytest.param("a: " + "[" * NESTED, "job.yaml:1:", id="nesting"),
    pytest.param(b"a: \xff\xfe\n", "job.yaml:1:4: byte 0xff at offset 3 is not UTF-8", id="not UTF-8"),
    pytest.param("", "job.yaml:1:1: the file is empty", id="empty"),
    pytest.param("just words\n", "job.yaml:1:1: a document must be a mapping", id="text"),
    pytest.param(JOB.replace("replicas: 2", "replicas: two"), "job.yaml:8: spec.tasks[0].replicas: two: ", id="type"),
    pytest.param(JOB.replace("replicas", "replica"), "job.yaml:8: spec.tasks[0].replica: unknown field", id="field"),
]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("content", "expected"), BAD)
def test_bad_content(command: str, content: str | bytes, expected: str, terminal: Terminal) -> None:
    (terminal.folder / "job.yaml").write_bytes(content.encode() if isinstance(content, str) else content)
    result = terminal.run(command, "job.yaml")
    printed = result.out if command == "validate" else result.err
    assert result.code == 2
    assert printed.startswith(expected)
    assert "Traceback" not in result.err
    if command != "validate":
        assert result.out == ""
    assert all(len(line) < 300 for line in printed.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("missing.yaml", "missing.yaml: no such file\n  hint: check the spelling\n", id="missing"),
        pytest.param(
            "no/where.yaml",
            "no/where.yaml: no such file\n  hint: the directory no does not exist either\n",
            id="missing directory",
        ),
        pytest.param(".", ".: is a directory, not a file\n  hint: name the YAML file in it\n", id="directory"),
        pytest.param("a\0b", "a\\x00b: not the name of a file\n", id="NUL in the name"),
    ],
)
def test_unreadable_file(command: str, name: str, expected: str, terminal: Terminal) -> None:
    result = terminal.run(command, name)
    printed = result.out if command == "validate" else result.err
    assert result.code == 2
    assert printed.removesuffix("1 error\n") == expected


MANY = 10_000

# So many values that quadratic time would be minutes.
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
        id="chain of tasks",
    ),
    pytest.param("networkTopology: {x: &x {mode: hard}, " + "<<: *x, " * MANY + "}", id="merge keys"),
]


@pytest.mark.parametrize("spec", SPECS)
def test_time_grows_linearly_with_the_file(spec: str, tmp_path: Path) -> None:
    """The time limit is wide, because the machine may be busy: quadratic time takes many minutes."""
    (tmp_path / "job.yaml").write_text(f"{JOB.partition('spec:')[0]}spec:\n  {spec}\n", encoding="utf-8")
    result = child("validate", "job.yaml", cwd=tmp_path)
    assert result.code == 2
    assert "Traceback" not in result.err


def test_documents_are_sorted_by_kind(terminal: Terminal) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\n"
    other = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    file = load(terminal.write(joined([secret, JOB, other])), offline_context())
    assert [entry.admitted.job.name for entry in file.jobs] == ["small"]
    assert [document.line for document in file.extra_objects] == [1]
    assert [str(report.severity) for report in file.reports] == ["warning"]
    assert file.is_good


def test_a_duplicate_key_does_not_hide_other_findings(terminal: Terminal) -> None:
    text = JOB.replace("replicas: 2", "replicas: -2") + "kind: Job\n"
    result = terminal.run("validate", terminal.write(text))
    assert [line.split(": ")[0] for line in result.out.splitlines() if line.startswith("job")] == [
        "job.yaml:8",
        "job.yaml:15:1",
    ]
