from __future__ import annotations

from pumice.client.export import REDACTED, redacted


def test_values_of_secret_variables_are_left_out() -> None:
    container = {"name": "main", "env": [{"name": "API_KEY", "value": "x"}, {"name": "EPOCHS", "value": "3"}]}
    found = redacted({"spec": {"containers": [container]}, "settings": {"env": {"HF_TOKEN": "y", "N": "1"}}})
    assert found == {
        "spec": {
            "containers": [
                {"name": "main", "env": [{"name": "API_KEY", "value": REDACTED}, {"name": "EPOCHS", "value": "3"}]}
            ]
        },
        "settings": {"env": {"HF_TOKEN": REDACTED, "N": "1"}},
    }
