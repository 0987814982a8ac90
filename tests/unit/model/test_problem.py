from __future__ import annotations

from pumice.model.problem import Problem


def test_a_problem_names_its_place_as_far_as_it_is_known() -> None:
    assert str(Problem("job.yaml", 3, 7, "a tab")) == "job.yaml:3:7: a tab"
    assert str(Problem("job.yaml", 0, 0, "no such file")) == "job.yaml: no such file"
