"""Overlay file systems, as one user namespace may mount them."""

from __future__ import annotations

from collections.abc import Sequence

from pumice.engines.local.sandbox import syscalls


def mount(lower: Sequence[str], upper: str, work: str, place: str) -> None:
    """The first of `lower` lies on top. Attributes that ordinary users may set take the place of root's."""
    layers = ":".join(map(_escaped, lower))
    options = f"lowerdir={layers},upperdir={_escaped(upper)},workdir={_escaped(work)},userxattr"
    syscalls.mount("overlay", place, "overlay", 0, options)


def _escaped(path: str) -> str:
    return "".join("\\" + character if character in "\\:," else character for character in path)
