from __future__ import annotations

from typing import Any

import pytest

from pumice.model.job import DependsOn, Job
from pumice.model.snapshot import ObservedPod
from pumice.reconcile.dependencies import may_start
from pumice.reconcile.ledger import Ledger
from tests.builders import a_job, a_task
from tests.unit.reconcile.values import NOW, a_pod, a_state


def chain(least: int | None = None, **depends: Any) -> Job:
    return a_job(a_task("a", 2, min_available=least), a_task("b", 1), a_task("c", 1, depends_on=DependsOn(**depends)))


def test_without_dependencies_all_tasks_may_start() -> None:
    assert may_start(a_state(job=a_job(a_task("a"), a_task("b")))) == {"a", "b"}


READY = (a_pod("a-0"), a_pod("a-1"))


@pytest.mark.parametrize(
    ("job", "pods", "free"),
    [
        pytest.param(chain(name=["a"]), (), False, id="no pod"),
        pytest.param(chain(name=["a"]), READY, True, id="all run"),
        pytest.param(chain(name=["a"]), READY[:1], False, id="one is missing"),
        pytest.param(chain(least=1, name=["a"]), READY[:1], True, id="enough for minAvailable"),
        pytest.param(chain(name=["a"]), (READY[0], a_pod("a-1", ready=False)), False, id="one is not ready"),
        pytest.param(chain(name=["a"]), (READY[0], a_pod("a-1", "Succeeded")), True, id="one has succeeded"),
        pytest.param(chain(name=["a"]), (READY[0], a_pod("a-1", "Failed")), False, id="one has failed"),
        pytest.param(chain(name=["a"]), (READY[0], a_pod("a-1", deleted_at=NOW)), False, id="one is being deleted"),
        pytest.param(chain(name=["a"]), (READY[0], a_pod("a-1", version=-1)), False, id="one is of an earlier run"),
        pytest.param(chain(name=["a", "b"]), READY, False, id="all of two, one ready"),
        pytest.param(chain(name=["a", "b"], iteration="any"), READY, True, id="any of two, one ready"),
        pytest.param(chain(name=["a"], iteration="any"), READY[:1], False, id="any of one is all"),
        pytest.param(chain(name=["a"], condition="Completed"), READY, False, id="running is not completed"),
        pytest.param(
            chain(least=1, name=["a"], condition="Completed"),
            (a_pod("a-0", "Succeeded"), a_pod("a-1")),
            False,
            id="completed means all",
        ),
        pytest.param(
            chain(name=["a"], condition="Completed"),
            (a_pod("a-0", "Succeeded"), a_pod("a-1", "Succeeded")),
            True,
            id="completed",
        ),
        pytest.param(chain(), (), True, id="a dependency on no task"),
        pytest.param(chain(name=["a"]), (a_pod("c-0"),), True, id="started already"),
    ],
)
def test_which_tasks_may_start(job: Job, pods: tuple[ObservedPod, ...], free: bool) -> None:
    assert may_start(a_state(*pods, job=job)) == {"a", "b"} | ({"c"} if free else set())


@pytest.mark.parametrize(
    ("succeeded", "free"),
    [
        pytest.param({"a": frozenset((0, 1))}, True, id="its dependency has succeeded"),
        pytest.param({"a": frozenset((0,))}, False, id="one pod of it has not"),
        pytest.param({"c": frozenset((0,))}, True, id="it has succeeded itself"),
        pytest.param({"c": frozenset()}, False, id="no success"),
    ],
)
def test_recorded_successes_count(succeeded: dict[str, frozenset[int]], free: bool) -> None:
    assert ("c" in may_start(a_state(job=chain(name=["a"]), ledger=Ledger(succeeded=succeeded)))) is free
