"""`pumice.plugins` offers its names without importing what is not used."""

from __future__ import annotations

import pytest

from pumice import plugins


def test_names_are_loaded_when_they_are_used() -> None:
    assert set(dir(plugins)) == set(plugins.__all__)
    assert all(getattr(plugins, name) is not None for name in plugins.__all__)
    with pytest.raises(AttributeError, match="no attribute 'PyTorsh'"):
        getattr(plugins, "PyTorsh")  # noqa: B009 - mypy knows that there is none
