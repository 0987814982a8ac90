from __future__ import annotations

from pumice.model.gang import GANG_PROVIDERS


def test_only_without_a_gang_are_there_no_groups() -> None:
    assert [name for name, provider in GANG_PROVIDERS.items() if not provider.has_groups] == ["none"]
