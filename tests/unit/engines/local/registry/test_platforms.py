from __future__ import annotations

import platform as this_machine
from typing import Any

import pytest

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.registry.image_reference import Platform, choose, parse_platform, platform_of, this_platform


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("linux/amd64", Platform("linux", "amd64")),
        ("arm64", Platform("linux", "arm64")),
        ("linux/aarch64", Platform("linux", "arm64")),
        ("x86_64", Platform("linux", "amd64")),
        ("linux/arm/v7", Platform("linux", "arm", "v7")),
        ("windows/amd64", Platform("windows", "amd64")),
    ],
)
def test_parse(text: str, expected: Platform) -> None:
    assert parse_platform(text) == expected


@pytest.mark.parametrize("text", ["", "a/b/c/d", "linux/", "/amd64", "linux/AMD64", "linux/../x"])
def test_parse_errors(text: str) -> None:
    with pytest.raises(ImageError, match="must be OS/ARCHITECTURE"):
        parse_platform(text)


@pytest.mark.parametrize(
    ("wanted", "offered", "chosen"),
    [
        pytest.param("amd64", ["linux/arm64", "linux/amd64"], 1, id="architecture"),
        pytest.param("amd64", ["windows/amd64", "linux/amd64"], 1, id="system"),
        pytest.param("amd64", ["linux/amd64/v3", "linux/amd64"], 1, id="no variant before a variant"),
        pytest.param("amd64", ["linux/amd64/v3", "linux/amd64/v2"], 1, id="the lowest variant"),
        pytest.param("arm64", ["linux/arm/v8", "linux/arm64/v8"], 1, id="the usual variant"),
        pytest.param("linux/arm64/v8", ["linux/arm64"], 0, id="the usual variant is left out"),
        pytest.param("linux/arm/v6", ["linux/arm/v7", "linux/arm/v6"], 1, id="variant"),
        pytest.param("linux/arm/v7", ["linux/arm/v6", "linux/arm"], 1, id="the usual variant of arm"),
    ],
)
def test_choose(wanted: str, offered: list[str], chosen: int) -> None:
    keys = ("os", "architecture", "variant")
    entries = [{"platform": dict(zip(keys, each.split("/"), strict=False))} for each in offered]
    assert choose(entries, parse_platform(wanted)) is entries[chosen]


def test_nothing_to_choose() -> None:
    entries: list[dict[str, Any]] = [
        {"platform": {"os": "linux", "architecture": "s390x"}},
        {"platform": {"os": "unknown", "architecture": "unknown"}},
        {"platform": "nonsense"},
        {"platform": {"os": 5}},
    ]
    with pytest.raises(ImageError, match="does not exist for linux/arm64") as caught:
        choose(entries, Platform("linux", "arm64"))
    assert caught.value.hint == "it exists for linux/s390x; choose with --platform"


@pytest.mark.parametrize(
    ("machine", "expected"), [("x86_64", "linux/amd64"), ("aarch64", "linux/arm64"), ("armv7l", "linux/arm/v7")]
)
def test_this_platform(machine: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_machine, "machine", lambda: machine)
    assert str(this_platform()) == expected


def test_platform_of_nothing() -> None:
    assert platform_of(None) == Platform("", "")
