from __future__ import annotations

import pytest

from pumice.engines.kubernetes.install.checks.check_result import Target
from pumice.engines.kubernetes.install.installation import Installation

APPLY = "kubectl apply --server-side --force-conflicts -f -"
INSTALLED = Installation("apart", {})


@pytest.mark.parametrize(
    ("target", "command"),
    [
        pytest.param(Target(), "pumice install --image NAME", id="nothing installed"),
        pytest.param(
            Target("apart", "native", webhook=False),
            "pumice install --image NAME --namespace apart --gang native --no-webhook",
            id="flags that were given",
        ),
        pytest.param(
            Target("apart", "native", webhook=False, installation=INSTALLED),
            "pumice install --upgrade --namespace apart",
            id="installed",
        ),
    ],
)
def test_a_hint_keeps_what_the_operator_chose(target: Target, command: str) -> None:
    assert target.apply_all == f"{command} | {APPLY}"


@pytest.mark.parametrize(("gang", "flag"), [("auto", ""), ("native", ""), ("volcano", " --gang volcano")])
def test_a_hint_for_the_definitions(gang: str, flag: str) -> None:
    assert Target(gang=gang).apply_crds == f"pumice install --crds-only{flag} | {APPLY}"
