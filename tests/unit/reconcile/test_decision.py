from __future__ import annotations

from pumice.reconcile.decision import DeletePod, Remove, RemoveCommand


def test_commands_of_different_kinds_are_never_equal() -> None:
    alike: list[object] = [DeletePod("a", "b"), RemoveCommand("a", "b"), Remove("a", "b")]
    assert [alike.index(command) for command in alike] == [0, 1, 2]
