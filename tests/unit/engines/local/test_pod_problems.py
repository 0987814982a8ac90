from __future__ import annotations

from pumice.engines.local.pod_problems import Problem, fatal


def test_texts() -> None:
    assert str(Problem("a")) == "a"
    assert str(fatal("a", "b")) == "a\n  hint: b"
    assert fatal("a").fatal
    assert not Problem("a").fatal
