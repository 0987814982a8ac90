from __future__ import annotations

from typing import Any

import pytest

from pumice.plugins.env import Env
from tests.builders import a_container, a_job, a_slot, a_task, a_template, literal, shaped

INDEXES = literal(VK_TASK_INDEX="2", VC_TASK_INDEX="2")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param({}, INDEXES, id="no variables"),
        pytest.param({"env": None}, INDEXES, id="null"),
        pytest.param({"env": literal(A="1")}, [*literal(A="1"), *INDEXES], id="behind the user's own"),
        pytest.param(
            {"env": literal(VC_TASK_INDEX="mine")},
            literal(VC_TASK_INDEX="mine", VK_TASK_INDEX="2"),
            id="the user's own value is kept",
        ),
    ],
)
def test_every_container_gets_its_index(before: dict[str, Any], after: object) -> None:
    template = a_template(a_container(**before), a_container("other"), initContainers=[a_container("init", **before)])
    pod = shaped(Env(), a_job(a_task(replicas=3, template=template)), index=2)
    assert [container["env"] for container in pod.containers] == [after, INDEXES]
    assert [container["env"] for container in pod.init_containers] == [after]


def test_it_wants_nothing_and_makes_nothing() -> None:
    job = a_job()
    assert (Env.options(), list(Env().check(job)), list(Env().objects(job))) == ((), [], [])


def test_why() -> None:
    assert Env().why(a_slot(a_job())) == {
        "env VK_TASK_INDEX": "the same, by its older name",
        "env VC_TASK_INDEX": "index within task worker",
    }
