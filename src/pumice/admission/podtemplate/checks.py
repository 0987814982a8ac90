"""Checks for single fields that many rules share: enumerations, syntax, ranges, paths, addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import Finding, Path
from pumice.model.suggestions import did_you_mean
from pumice.model.text import listed

GREATEST_ID: Final = 2**31 - 1
GREATEST_PORT: Final = 65535
GREATEST_MODE: Final = 0o777


def one_of(view: View, key: str, accepted: Sequence[str], *, blank_is_unset: bool = True) -> Iterator[Finding]:
    """Check an enumeration; in most fields, but not in all, an empty string means unset."""
    word = view.get(key)
    if not isinstance(word, str) or word in accepted or (blank_is_unset and not word):
        return
    yield view.error(key, f"must be {listed(accepted)}", did_you_mean(word, accepted))


def required(view: View, *keys: str) -> Iterator[Finding]:
    for key in keys:
        if view.is_blank(key):
            yield view.missing(key)


def required_one_of(view: View, key: str, accepted: Sequence[str]) -> Iterator[Finding]:
    if view.is_blank(key):
        yield view.missing(key, f"is required: {listed(accepted)}")
    else:
        yield from one_of(view, key, accepted)


def spelled(view: View, key: str, error_of: Callable[[str], str], *, blank_is_unset: bool = True) -> Iterator[Finding]:
    text = view.get(key)
    if isinstance(text, str) and (text or not blank_is_unset) and (error := error_of(text)):
        yield view.error(key, error, _respelled(text, error_of))


def _respelled(text: str, error_of: Callable[[str], str]) -> str:
    """Suggest a name without upper case and underscores, the most common mistakes."""
    corrected = text.strip().lower().replace("_", "-").replace(" ", "-")
    return "" if error_of(corrected) or not corrected else f"did you mean {corrected}?"


def required_spelled(view: View, key: str, error_of: Callable[[str], str]) -> Iterator[Finding]:
    yield from required(view, key)
    yield from spelled(view, key, error_of)


def within(view: View, key: str, least: int, greatest: int | None = None) -> Iterator[Finding]:
    number = view.number(key)
    if number is None or (number >= least and (greatest is None or number <= greatest)):
        return
    yield view.error(key, f"must be {least} or more" if greatest is None else f"must be from {least} to {greatest}")


def port_number(view: View, key: str) -> Iterator[Finding]:
    yield from within(view, key, 1, GREATEST_PORT)


def user_id(view: View, *keys: str) -> Iterator[Finding]:
    for key in keys:
        yield from within(view, key, 0, GREATEST_ID)


def file_mode(view: View, key: str) -> Iterator[Finding]:
    number = view.number(key)
    if number is not None and not 0 <= number <= GREATEST_MODE:
        message = f"must be from 0 to {GREATEST_MODE}, which is 0777 in octal"
        yield view.error(key, message, "write it in octal: 0644" if number > 0 else "")


def at_most_one(view: View, keys: Sequence[str], what: str) -> Iterator[Finding]:
    """Report every field after the first one that is set."""
    given = [key for key in keys if view.has(key)]
    for key in given[1:]:
        yield view.missing(key, f"only one {what} may be given, and {given[0]} is")


def unique(seen: dict[str, Path], name: str, at: Path, what: str) -> Iterator[Finding]:
    """Record a name, and report it if it was seen before."""
    if not name:
        return
    if name in seen:
        yield Finding(at, f"{what} is already used at {seen[name]}", name)
    else:
        seen[name] = at


def no_backsteps(view: View, key: str) -> Iterator[Finding]:
    if ".." in view.text(key).split("/"):
        yield view.error(key, "must not contain '..'")


def descending_path(view: View, key: str) -> Iterator[Finding]:
    """Check a path below a directory: relative, and without '..'."""
    if view.text(key).startswith("/"):
        yield view.error(key, "must be a relative path")
    yield from no_backsteps(view, key)


def file_path(view: View, key: str) -> Iterator[Finding]:
    """Check the path of a file in a volume; the kubelet uses names that begin with two dots."""
    yield from required(view, key)
    yield from descending_path(view, key)
    path = view.text(key)
    if path.startswith("..") and not path.startswith("../") and path != "..":
        yield view.error(key, "must not begin with '..'")


def ip_error(text: str) -> str:
    from ipaddress import IPv6Address, ip_address  # noqa: PLC0415 - few jobs have addresses

    try:
        address = ip_address(text)
    except ValueError:
        return "must be an IP address such as 10.9.8.7 or 2001:db8::1"
    if isinstance(address, IPv6Address) and (address.ipv4_mapped or address.scope_id):
        return "must be a plain IP address: no IPv4-mapped IPv6 address, and no zone"
    return ""
