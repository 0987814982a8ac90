from __future__ import annotations

import pytest

from pumice.model.problem import Position, Problem
from pumice.model.pumice_error import PumiceError


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
    ("where", "expected"),
    [
        ("--env-file: job.env", "env_file: job.env"),
        ("--from", "from_"),
        ("job.yaml", "job.yaml"),
    ],
)
def test_an_option_is_an_argument_in_python(where: str, expected: str) -> None:
    error = PumiceError("is wrong", "see --help", Position(where), python_hint="see help(pumice.run)")
    error.use_python_words()
    assert (str(error.problem), error.hint) == (f"{expected}: is wrong", "see help(pumice.run)")
