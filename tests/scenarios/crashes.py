"""A controller that dies after its n-th call to the engine."""

from __future__ import annotations

from collections.abc import Callable

from pumice.engines.memory.engine import CrashError
from tests.scenarios.stage import Stage


def with_a_crash(play: Stage, calls: int, act: Callable[[], object]) -> Stage:
    """Let the controller die after so many calls more, in the midst of what the act sets off, and start it again."""
    left, called = [calls], play.engine.after_call

    def dies(call: str) -> None:
        called(call)
        left[0] -= 1
        if left[0] == -1:
            raise CrashError

    play.engine.after_call = dies
    try:
        act()
    except CrashError:
        play.restart_controller()
    return play
