"""Options of Python are flags: good ones become the same flags, bad ones are refused with what is accepted."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import pumice
from pumice.client.run_options.keywords import Options, files_of, flags_of, seconds_of
from pumice.client.run_options.reading import FLAGS


def test_every_flag_is_an_option() -> None:
    assert {*Options.__annotations__} - {"with_"} == {*FLAGS} - {"file", "documents"}


@pytest.mark.parametrize(
    ("name", "value", "flag"),
    [
        pytest.param("scale", {"worker": 2}, ["worker=2"], id="mapping"),
        pytest.param("scale", ["worker=2"], ["worker=2"], id="as the flag"),
        pytest.param("env", {"A": "1", "B": 2}, ["A=1", "B=2"], id="numbers"),
        pytest.param("env", ["HOME", "A=1"], ["HOME", "A=1"], id="a name alone"),
        pytest.param("image", {"torch": Path("/images/torch")}, ["torch=/images/torch"], id="path in a mapping"),
        pytest.param("mount", Path("/data"), ["/data"], id="one path"),
        pytest.param("ignore", "nvidia.com/gpu", ["nvidia.com/gpu"], id="one text"),
        pytest.param("ignore", {"a"}, ["a"], id="set"),
        pytest.param("timeout", 90, "90s", id="seconds"),
        pytest.param("timeout", 0.5, "0.5s", id="part of a second"),
        pytest.param("timeout", "5m", "5m", id="text of a time"),
        pytest.param("python", Path("/usr/bin/python3"), "/usr/bin/python3", id="path"),
        pytest.param("pids_limit", 100, "100", id="number"),
        pytest.param("priority", -1, -1, id="priority"),
        pytest.param("fit", True, True, id="switch"),
        pytest.param("fit", None, False, id="None is not given"),
    ],
)
def test_good_options(name: str, value: object, flag: object) -> None:
    assert getattr(flags_of({name: value}, "-"), name) == flag


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"scal": {"w": 1}}, "scal: unknown option\n  hint: did you mean scale?", id="unknown"),
        pytest.param({"scale": 2}, 'scale: 2: must be a mapping such as {"TASK": N}', id="number for a mapping"),
        pytest.param({"scale": {"w": None}}, "scale: w: None: must be a text", id="None in a mapping"),
        pytest.param({"env": {"A": b"x"}}, "env: A: b'x': must be a text", id="bytes"),
        pytest.param({"ignore": {"a": "b"}}, "ignore: {'a': 'b'}: must be a text, or a list of texts", id="no mapping"),
        pytest.param({"fit": "no"}, "fit: no: must be True or False", id="text for a switch"),
        pytest.param({"keep": 1}, "keep: 1: must be True or False", id="number for a switch"),
        pytest.param({"priority": "high"}, "priority: high: must be a whole number", id="priority"),
        pytest.param({"priority": True}, "priority: True: must be a whole number", id="switch for a number"),
        pytest.param({"timeout": True}, "timeout: True: must be a number of seconds", id="switch for a time"),
        pytest.param({"network": "none"}, "network: none: must be one of job, outbound, all", id="choice"),
        pytest.param({"network": []}, "network: []: must be one of", id="list for a choice"),
        pytest.param({"note": True}, "note: True: must be a text", id="switch for a text"),
        pytest.param({"python": ["python3"]}, "python: ['python3']: must be a text", id="list for a text"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(pumice.InvalidOption) as caught:
        flags_of(options, "-")
    assert str(caught.value).startswith(message)


def test_files_of_documents() -> None:
    assert files_of({"with_": Path("a.yaml")}) == ["a.yaml"]
    assert files_of({"with_": ["a.yaml", Path("b.yaml")]}) == ["a.yaml", "b.yaml"]
    with pytest.raises(pumice.InvalidOption, match="with_: 5: must be a text, or a list of texts"):
        files_of({"with_": 5})  # type: ignore[typeddict-item] # wrong on purpose


def test_times() -> None:
    assert [seconds_of("since", each) for each in (1.5, "10m", dt.timedelta(hours=1))] == [1.5, 600, 3600]
    bad: tuple[object, ...] = (True, [], float("nan"))
    for wrong in bad:
        with pytest.raises(pumice.InvalidOption, match="must be a number of seconds, or a text such as 10m"):
            seconds_of("since", wrong)
    with pytest.raises(pumice.InvalidOption, match=r"timeout: 10: .*\n.*did you mean 10s\?"):
        seconds_of("timeout", "10")
