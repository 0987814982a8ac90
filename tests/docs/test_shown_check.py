"""What the guide shows of `pumice install --check`, which needs a cluster: its numbers and words are those of today."""

from __future__ import annotations

from pumice.engines.kubernetes.install.checks.permission_checks import required_permissions
from pumice.engines.kubernetes.install.permissions import granted
from tests.meta.tree import ROOT


def test_the_number_of_permissions() -> None:
    text = (ROOT / "docs" / "guides" / "install.md").read_text()
    assert (
        f" all {len(required_permissions(granted('auto'), 'pumice-system'))} that controller and webhook need" in text
    )
