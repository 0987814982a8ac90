from __future__ import annotations

import pytest

from pumice.model.problem import FLAGS, Advice, Command, Option, Position, Problem
from pumice.model.pumice_error import PumiceError

ALL = Option("all", True)


def test_an_error_carries_a_problem() -> None:
    error = PumiceError("no such image", "load it", Position("busybox"))
    assert str(error) == "no such image"
    assert error.problem == Problem("no such image", error.hint, Position("busybox"))


def test_an_error_carries_several_problems() -> None:
    problems = (Problem("no such image", "load it"), Problem("no such claim", where=Position("job.yaml", 3)))
    error = PumiceError.of(problems)
    assert str(error) == "no such image"
    assert error.problems == problems


@pytest.mark.parametrize(
    ("advice", "flags", "python"),
    [
        pytest.param("see the guide", "see the guide", "see the guide", id="text"),
        pytest.param((Option("fit", True),), "--fit", "fit=True", id="switch"),
        pytest.param(("less with ", Option("scale")), "less with --scale", "less with scale=", id="name alone"),
        pytest.param(
            (Option("scale", {"w": 1}), " runs one"), "--scale w=1 runs one", 'scale={"w": 1} runs one', id="map"
        ),
        pytest.param((Option("ignore", ["a", "b c"]),), "--ignore a --ignore 'b c'", 'ignore=["a", "b c"]', id="list"),
        pytest.param((Option("with", "FILE"),), "--with FILE", 'with_="FILE"', id="word of Python"),
        pytest.param((Option("pids-limit", 9),), "--pids-limit 9", "pids_limit=9", id="number"),
        pytest.param(
            (Command("ps", options=(Option("all", True),)),), "pumice ps -a", "pumice.runs(all=True)", id="ps"
        ),
        pytest.param((Command("stop", "a:1"),), "pumice stop a:1", "run.stop()", id="command"),
        pytest.param(
            (Command("exec", "a:1", "w-0", ("ls", "/x y")),),
            "pumice exec a:1/w-0 -- ls '/x y'",
            'run.exec("w-0", ["ls", "/x y"])',
            id="command in a pod",
        ),
    ],
)
def test_each_front_end_spells_options_and_commands(advice: Advice, flags: str, python: str) -> None:
    error = PumiceError("is wrong", advice, Position(option="env-file"))
    assert (str(error.problem), error.hint) == ("env_file: is wrong", python)
    shown = error.problem.spelled(FLAGS)
    assert (str(shown), shown.hint) == ("--env-file: is wrong", flags)


def test_a_problem_with_a_key_of_a_file_names_both_in_every_front_end() -> None:
    error = PumiceError("is wrong", where=Position("pumice.toml", option="mounts"))
    assert str(error.problem) == str(error.problem.spelled(FLAGS)) == "pumice.toml: mounts: is wrong"


def test_a_position_without_an_option_has_one_spelling() -> None:
    assert Position("job.yaml", 3).spelled(FLAGS) == Position("job.yaml", 3)


def test_equal_options_are_one_member_of_a_set() -> None:
    assert len({Option("scale", {"w": 1}), Option("scale", {"w": 1}), Option("scale")}) == 2
