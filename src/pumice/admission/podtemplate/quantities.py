"""Quantities in a pod template: read tolerantly, with a hint at the unit that was meant."""

from __future__ import annotations

import re
from typing import Final

from pumice.model.findings import Finding, Path
from pumice.model.quantity import Quantity

_UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "G", "T", "P", "E")
_WITH_UNIT = re.compile(r"([0-9.]+)\s*([A-Za-z]+)")
_ACCEPTED: Final = "must be a quantity such as 500m, 2, 1.5 or 4Gi"


def read_quantity(value: object, at: Path) -> Quantity | Finding | None:
    """The quantity; or what is wrong with it; or nothing where the shape is wrong, which is reported elsewhere."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return Quantity.parse(value)
    except ValueError:
        return Finding(at, _ACCEPTED, value, _unit_hint(value))


def _unit_hint(value: object) -> str:
    """`8GB` was meant to be `8G`, `8 gib` to be `8Gi`."""
    match = _WITH_UNIT.fullmatch(str(value).strip())
    if match is None:
        return ""
    number, unit = match[1], match[2].casefold().removesuffix("b")
    meant = next((known for known in _UNITS if known.casefold() == unit), None)
    return f"did you mean {number}{meant}?" if meant else ""
