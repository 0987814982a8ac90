from __future__ import annotations

import msgspec

from pumice.model.metadata import Metadata


def test_json_names_and_nothing_that_is_not_set() -> None:
    metadata = Metadata(name="a", generate_name="b", resource_version="1", labels={"c": "d"})
    assert msgspec.to_builtins(metadata) == {
        "name": "a",
        "generateName": "b",
        "resourceVersion": "1",
        "labels": {"c": "d"},
    }
    assert msgspec.to_builtins(Metadata()) == {}


def test_what_an_api_server_sends_is_read_and_the_rest_passed_over() -> None:
    sent = {"name": "a", "uid": "u", "generation": 3, "deletionTimestamp": None, "managedFields": [{}]}
    assert msgspec.convert(sent, Metadata) == Metadata(name="a", uid="u", generation=3)
