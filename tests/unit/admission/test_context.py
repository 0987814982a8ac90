from __future__ import annotations

import pytest

from pumice.admission.context import Context, Queue
from pumice.plugins.registry import Registry


def test_offline_is_the_default() -> None:
    """Nobody knows the queues, Volcano's rules hold, and Pumice's own fields are welcome."""
    context = Context(Registry(), {})
    assert (context.queues, context.queue_rules, context.portable) == (None, True, False)


def test_a_queue_is_open_and_has_nothing_below_it() -> None:
    assert Queue() == Queue(state="Open", children=0)


def test_a_context_is_a_value() -> None:
    with pytest.raises(AttributeError):
        Context(Registry(), {}).portable = True  # type: ignore[misc]  # that it cannot be set is what is tested
