from __future__ import annotations

from pumice.runtime.once import Once


def test_a_key_is_first_once_and_again_after_it_is_forgotten() -> None:
    once = Once()
    assert [once.first(key) for key in ("a", "b", "a")] == [True, True, False]
    once.forget("a")
    assert [once.first(key) for key in ("a", "b")] == [True, False]
