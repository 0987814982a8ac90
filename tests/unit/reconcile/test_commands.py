from __future__ import annotations

from pumice.model.command import Command, CommandTarget
from pumice.model.job import Metadata
from pumice.plugins.svc import Svc
from pumice.reconcile.commands import commands_for
from pumice.reconcile.decision import CreatePod, DeletePod, Ensure, RemoveCommand
from pumice.reconcile.ledger import Ledger
from tests.unit.reconcile.values import NOW, a_pod, a_snapshot


def test_first_remove_then_keep_then_make_then_tidy_up() -> None:
    stale = Command(metadata=Metadata(name="c", uid="c"), target=CommandTarget(uid="another"))
    snapshot = a_snapshot(a_pod("worker-0"), a_pod("worker-7"), commands=(stale,))
    commands = commands_for(snapshot, Ledger(), (Svc(),), NOW)
    kinds = [type(command) for command in commands]
    assert kinds == [DeletePod, Ensure, Ensure, CreatePod, RemoveCommand]
    assert commands[0] == DeletePod("train-worker-7", "uid-worker-7")
    assert commands[-1] == RemoveCommand("c", "c")


def test_a_job_that_has_everything_needs_nothing() -> None:
    assert commands_for(a_snapshot(a_pod("worker-0"), a_pod("worker-1")), Ledger(), (), NOW) == ()


def test_on_the_last_attempt_finished_pods_are_kept() -> None:
    pods = (a_pod("worker-0", "Failed"), a_pod("worker-1"))
    snapshot = a_snapshot(*pods, phase="Restarting", version=1, group=None)
    assert commands_for(snapshot, Ledger(spent=2), (), NOW) == (
        DeletePod("train-worker-0", "uid-worker-0"),
        DeletePod("train-worker-1", "uid-worker-1"),
    )
    assert commands_for(snapshot, Ledger(spent=3), (), NOW) == (DeletePod("train-worker-1", "uid-worker-1"),)
