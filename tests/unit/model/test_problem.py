from __future__ import annotations

from pumice.model.problem import FLAGS, PYTHON, Command, Option, Position, Problem


def test_a_problem_prints_its_position_as_far_as_it_is_known() -> None:
    assert str(Problem("a tab", where=Position("job.yaml", 3, 7))) == "job.yaml:3:7: a tab"
    assert str(Problem("a long name", where=Position("job.yaml", 3))) == "job.yaml:3: a long name"
    assert str(Problem("no such file", where=Position("job.yaml"))) == "job.yaml: no such file"
    assert str(Problem("no memory left")) == "no memory left"
    assert Problem("no such file", where=Position("job.yaml")).text == "job.yaml: no such file"
    assert Problem("no memory left", "close something").text == "no memory left\n  hint: close something"


def test_each_front_end_spells_the_cluster() -> None:
    command = Command("ps", options=(Option("on", "prod"), Option("all", True)))
    assert FLAGS.command(command) == "pumice ps --on prod -a"
    assert PYTHON.command(command) == "client.runs(all=True)"
    assert PYTHON.option(Option("on", "prod")) == 'pumice.connect("prod")'
