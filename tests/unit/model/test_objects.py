from __future__ import annotations

from pumice.model.objects import KeyPair, Once, owned, owner_reference
from tests.builders import NAMESPACE, OWNER, a_job


def test_the_owner_is_the_job() -> None:
    assert owner_reference(a_job()) == OWNER


def test_an_owned_object() -> None:
    assert owned(a_job(), "v1", "ConfigMap", "x", {"data": {"a": "b"}}) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x", "namespace": NAMESPACE, "ownerReferences": [OWNER]},
        "data": {"a": "b"},
    }


def test_what_is_made_once_is_made_of_the_keys_that_the_engine_gives() -> None:
    once = Once(
        {"kind": "Secret", "stringData": {"config": "c"}}, lambda keys: {"private": keys("rsa").private, "config": "x"}
    )
    made = once.created_with(lambda kind: KeyPair(f"{kind} private", "public"))
    assert made == {"kind": "Secret", "stringData": {"private": "rsa private", "config": "c"}}
    assert once.manifest == {"kind": "Secret", "stringData": {"config": "c"}}
    assert not once.given
