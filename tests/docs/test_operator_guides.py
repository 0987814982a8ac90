"""Every command of the guides for operators is typed by a test against a real API server."""

from __future__ import annotations

import pytest

from tests.cluster.guide_reader import FOLLOWED, commands


@pytest.mark.parametrize("page", FOLLOWED)
def test_every_section_with_commands_is_followed(page: str) -> None:
    followed = [command for heading in FOLLOWED[page] for command in commands(page, heading)]
    assert followed == commands(page), "add the section to FOLLOWED and to tests/cluster/test_guides.py"


def test_the_readme_installs_as_the_guide_does() -> None:
    shown = commands("README.md", "The same file on a cluster")
    assert shown == [command for command in commands("install.md", "Install") if not command.startswith("podman")]
