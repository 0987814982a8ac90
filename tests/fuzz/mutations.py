"""Random changes of documents and bytes, drawn from a seed."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any, Final

Slot = tuple[Any, Any]  # a dict or list, and a key of it

ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    0,
    -1,
    2**31,
    2**63,
    10**400,
    1.5,
    float("inf"),
    float("nan"),
    "",
    " ",
    "-",
    "..",
    "/",
    "\0",
    "\ud800",
    "\x1b[2J",
    "\N{GRINNING FACE}",
    "x" * 5000,
    "$(A)$(A)$$(",
    "1Ki",
    "1e999999",
    "-0.0000001m",
    "9999999999h",
    "{{.Spec}}",
    [],
    {},
    [None],
    {"": None},
    [[[]]],
    {"name": "a"},
    [{"name": "a"}, {"name": "a"}],
)
INTERESTING: Final = (
    b"\0",
    b"\xff",
    b"\r\n",
    b"\n",
    b"-",
    b"9" * 20,
    b"..",
    b"{",
    b"[" * 50,
    b": ",
    b"&a ",
    b"*a",
    b"!!",
)


def slots(document: object) -> Iterator[Slot]:
    """Every key of every dict and every index of every list."""
    open_ones = [document]
    while open_ones:
        node = open_ones.pop()
        keys: list[Any] = (
            list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
        )
        for key in keys:
            yield node, key
            open_ones.append(node[key])  # type: ignore[index]  # a dict or a list, or it had no keys


def mutated_document(document: Any, draw: random.Random) -> Any:
    changed = copy.deepcopy(document)
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        found = list(slots(changed))
        if not found:
            return changed
        _change(draw.choice(found), draw.choice(found), draw)
    return changed


def _change(slot: Slot, other: Slot, draw: random.Random) -> None:
    node, key = slot
    match draw.randrange(6):
        case 0 | 1:
            node[key] = copy.deepcopy(draw.choice(ODD))
        case 2:
            del node[key]
        case 3:
            node[key] = copy.deepcopy(other[0][other[1]]) if other[1] in _keys(other[0]) else None
        case 4 if isinstance(node, dict):
            node[draw.choice((f"{key}s", str(key)[1:], str(key).upper(), ""))] = node.pop(key)
        case 4:
            node.extend(copy.deepcopy(node[key]) for _ in range(draw.choice((1, 3, 40))))
        case _:
            node[key] = {"a": node[key]} if draw.random() < 0.5 else [node[key]]


def _keys(node: Any) -> Any:
    return node if isinstance(node, dict) else range(len(node))


def mutated_bytes(data: bytes, draw: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5, 20))):
        at = draw.randrange(len(changed) + 1)
        match draw.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                changed[at:at] = draw.choice(INTERESTING)
            case 2:
                del changed[at : at + draw.choice((1, 2, 16, 512))]
            case 3:
                changed[at:at] = changed[at : at + draw.choice((1, 16, 512))] * draw.choice((1, 2, 30))
            case _:
                changed[at : at + 4] = draw.choice(INTERESTING)
    return bytes(changed)
