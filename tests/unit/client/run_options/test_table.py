"""The table of options: values of Python and texts of flags become the same; bad ones are refused in one way."""

from __future__ import annotations

import ast
import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import pumice
from pumice.client.run_options.kinds import read_time
from pumice.client.run_options.row import Scope
from pumice.client.run_options.table import ROWS, check_scope, option_name, read_values
from pumice.model.problem import FLAGS, PYTHON
from pumice.store.options import ClusterOptions, Kill, Network, RunOptions
from pumice.store.settings import ExtraMount, Settings

HERE = Path("/usr")


def _read(name: str, value: object) -> Any:
    return read_values({name: value}, HERE, {"HOME": "/root"}).get(name)


@pytest.mark.parametrize(
    ("name", "text", "value", "read"),
    [
        pytest.param("scale", ["worker=2"], {"worker": 2}, {"worker": 2}, id="mapping"),
        pytest.param("env", ["A=1", "B=2"], {"A": "1", "B": 2}, {"A": "1", "B": "2"}, id="numbers"),
        pytest.param("env", ["HOME", "A=1"], ["HOME", "A=1"], {"HOME": None, "A": "1"}, id="a name alone"),
        pytest.param("image", ["torch=bin"], {"torch": Path("bin")}, {"torch": HERE / "bin"}, id="path in a mapping"),
        pytest.param("entrypoint", ["i=sh 'a b'"], {"i": "sh 'a b'"}, {"i": ("sh", "a b")}, id="command"),
        pytest.param("mount", ["bin:ro"], "bin:ro", (ExtraMount(HERE / "bin", read_only=True),), id="mount"),
        pytest.param("allow_host_path", ["/data"], Path("/data"), (Path("/data"),), id="one path"),
        pytest.param("ignore", ["nvidia.com/gpu"], "nvidia.com/gpu", ("nvidia.com/gpu",), id="one text"),
        pytest.param("ignore", ["a", "a"], {"a"}, ("a",), id="set"),
        pytest.param("kill", ["w-0@1m30s"], "w-0@1m30s", (Kill("w-0", 90.0),), id="kill"),
        pytest.param("timeout", "1m30s", 90, 90, id="seconds"),
        pytest.param("timeout", "500ms", 0.5, 0.5, id="part of a second"),
        pytest.param("python", "/usr/bin/python3", Path("/usr/bin/python3"), "/usr/bin/python3", id="path"),
        pytest.param("pids_limit", "100", 100, 100, id="number"),
        pytest.param("log_limit", "1Ki", 1024, 1024, id="size"),
        pytest.param("network", "all", "all", Network.ALL, id="choice"),
        pytest.param("priority", -1, -1, -1, id="priority"),
        pytest.param("fit", True, True, True, id="switch"),
        pytest.param("fit", None, None, None, id="None is not given"),
    ],
)
def test_a_flag_and_a_value_are_the_same(name: str, text: object, value: object, read: object) -> None:
    assert _read(name, text) == _read(name, value) == read


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"scal": {"w": 1}}, "scal: unknown option\n  hint: did you mean scale?", id="unknown"),
        pytest.param({"scale": 2}, 'scale: 2: must be a mapping such as {"TASK": N}', id="number for a mapping"),
        pytest.param({"scale": {"w": None}}, "scale: w=None: N must be a number, 0 or more", id="None in a mapping"),
        pytest.param({"scale": {"w": True}}, "scale: w=True: N must be a number, 0 or more", id="switch in a mapping"),
        pytest.param({"env": {"A": b"x"}}, "env: A: must be a text, found a bytes", id="bytes"),
        pytest.param({"env": {"A": None}}, "env: A: None: must be a text", id="no value"),
        pytest.param({"env": [1]}, "env: must be a text, found a number", id="number in a list"),
        pytest.param({"image": {"i": 1}}, "image: i: 1: must be a text", id="number for a path"),
        pytest.param({"ignore": {"a": "b"}}, "ignore: {'a': 'b'}: must be a text, or a list of texts", id="no mapping"),
        pytest.param({"with_": 5}, "with_: 5: must be a text, or a list of texts", id="number for files"),
        pytest.param({"fit": "no"}, "fit: no: must be true or false", id="text for a switch"),
        pytest.param({"keep": 1}, "keep: 1: must be true or false", id="number for a switch"),
        pytest.param({"priority": "high"}, "priority: high: must be a whole number", id="priority"),
        pytest.param({"priority": True}, "priority: True: must be a whole number", id="switch for a number"),
        pytest.param({"pids_limit": True}, "pids_limit: True: must be a number, 1 or more", id="switch for a count"),
        pytest.param({"log_limit": 0}, "log_limit: 0: must be more than 0", id="no size"),
        pytest.param({"timeout": True}, "timeout: True: must be a number of seconds", id="switch for a time"),
        pytest.param({"network": "none"}, "network: none: must be one of job, outbound, all", id="choice"),
        pytest.param({"network": []}, "network: []: must be one of", id="list for a choice"),
        pytest.param({"note": True}, "note: True: must be a text", id="switch for a text"),
        pytest.param({"python": ["python3"]}, "python: ['python3']: must be a text", id="list for a text"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(pumice.InvalidOption) as caught:
        read_values(options, HERE, {})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({"TOKEN": "s3cret", "B": None}, id="another variable"),
        pytest.param({"TOKEN": ["s3cret"]}, id="no text"),
        pytest.param({"é": "s3cret"}, id="bad name"),
        pytest.param(["é=s3cret"], id="bad name in a text"),
        pytest.param(["=s3cret"], id="no name"),
        pytest.param([("TOKEN", "s3cret")], id="pair"),
        pytest.param(b"TOKEN=s3cret", id="bytes"),
    ],
)
def test_no_error_shows_the_value_of_a_variable(env: Any) -> None:
    with pytest.raises(pumice.InvalidOption) as caught:
        read_values({"env": env}, HERE, {})
    assert str(caught.value).startswith("env: ")
    assert "s3cret" not in str(caught.value)


def test_times() -> None:
    assert [read_time("since", each) for each in (1.5, "10m", dt.timedelta(hours=1))] == [1.5, 600, 3600]
    bad: tuple[object, ...] = (True, [], float("nan"))
    for wrong in bad:
        with pytest.raises(pumice.InvalidOption, match="must be a number of seconds, or a text such as 10m"):
            read_time("since", wrong)
    with pytest.raises(pumice.InvalidOption, match=r"timeout: 10: .*\n.*did you mean 10s\?"):
        read_time("timeout", "10")


def test_front_ends_spell_every_name_of_the_table() -> None:
    assert [PYTHON.name(option_name(name)) for name in ROWS] == [*ROWS]
    assert FLAGS.name(option_name("with_")) == "--with"


def test_every_option_has_one_field_that_exists() -> None:
    # These are read together with other values (reading.py).
    combined = {"with_", "env", "env_file", "mount", "allow_host_path", "workdir_read_only", "no_wait", "python"}
    fields = {name for name, row in ROWS.items() if row.setting or row.option or row.cluster}
    assert fields == ROWS.keys() - combined
    assert {row.setting for row in ROWS.values()} - {""} <= set(Settings.__struct_fields__)
    assert {row.option for row in ROWS.values()} - {""} <= set(RunOptions.__struct_fields__)
    # A person who is asked may name the Job that is replaced.
    assert {row.cluster for row in ROWS.values()} - {""} == {*ClusterOptions.__struct_fields__} - {"replaced_uid"}


def test_options_of_another_scope_are_refused_with_what_to_use_instead() -> None:
    for name, row in ROWS.items():
        given = {name: "x"}
        if row.scope is not Scope.BOTH:
            with pytest.raises(pumice.InvalidOption) as caught:
                check_scope(given, on_cluster=row.scope is Scope.MACHINE)
            assert caught.value.hint
        if row.scope is not Scope.MACHINE:
            check_scope(given, on_cluster=True)
        if row.scope is not Scope.CLUSTER:
            check_scope(given, on_cluster=False)


def test_every_option_has_a_group_in_the_help() -> None:
    assert [name for name, row in ROWS.items() if row.group is None] == []


def test_what_is_only_for_runs_in_the_background_is_refused_elsewhere(tmp_path: Path) -> None:
    job = pumice.job("trial", tasks=[pumice.task("w", command=["true"])])
    client = pumice.Client(state=tmp_path)
    for start in (client.run, client.start):
        with pytest.raises(pumice.InvalidOption, match="hold: only for runs in the background"):
            start(job, hold=True)
    assert list(tmp_path.iterdir()) == []


def test_errors_name_options_of_the_table() -> None:
    """An engine names an option by a text: one that the table does not have would mislead a user."""
    of_commands = {"all", "all-namespaces", "delete-claims", "force", "kubeconfig", "namespace", "on"}
    known = {*map(option_name, ROWS), *of_commands}
    named = set()
    for file in Path(pumice.__file__).parent.rglob("*.py"):
        if "Option(" not in (text := file.read_text()):
            continue
        calls = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call) and each.args]
        options = [each.args[0] for each in calls if isinstance(each.func, ast.Name) and each.func.id == "Option"]
        named |= {each.value for each in options if isinstance(each, ast.Constant)}
    assert {"scale", "fit", "force"} <= named
    assert named <= known
