from __future__ import annotations

from pumice.engines.local.container_env import field_value, resource_value
from tests.unit.engines.local.pod_values import FACTS, a_pod


def test_lists_are_sorted_and_quoted() -> None:
    assert field_value("metadata.labels", a_pod(), FACTS) == 'a.example/x="1"\nb="2"'
    quoted = field_value("metadata.annotations", a_pod(), FACTS)
    assert quoted == r'note="say \"hi\"\n\tto \\ all\x01 é\u200b\U000e0001"'


def test_empty_lists() -> None:
    assert field_value("metadata.labels", {"metadata": {"labels": None}}, FACTS) == ""
    assert field_value("metadata.annotations['a']", {}, FACTS) == ""


def test_service_account() -> None:
    for field in ("serviceAccountName", "serviceAccount"):
        assert field_value("spec.serviceAccountName", a_pod(**{field: "robot"}), FACTS) == "robot"


def test_old_and_unknown_paths() -> None:
    assert field_value("spec.host", a_pod(), FACTS) == "laptop"
    assert field_value("status.phase", a_pod(), FACTS) is None


def test_ill_formed_resources() -> None:
    assert resource_value({}, {}, a_pod(), FACTS) is None
    assert resource_value({"resource": "cpu"}, {}, a_pod(), FACTS) is None
    container = {"resources": {"limits": {"cpu": "many"}}}
    assert resource_value({"resource": "limits.cpu", "divisor": "0"}, container, {}, FACTS) == "4"
    assert resource_value({"resource": "limits.ephemeral-storage"}, {}, a_pod(), FACTS) == "0"
