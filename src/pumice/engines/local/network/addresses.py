"""Addresses of pods: 10.77.0.10 and up, and the same one whenever the pod of a slot is made anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

NETWORK: Final = "10.77.0.0/16"
GATEWAY: Final = "10.77.0.1"

_FIRST: Final = 10
# Numbers 0 and 255 at the end look like a network and its broadcast address to some programs.
_PER_BLOCK: Final = 254
_BLOCKS: Final = 256
CAPACITY: Final = _PER_BLOCK * _BLOCKS - (_FIRST - 1)


class AddressesExhaustedError(Exception):
    def __init__(self) -> None:
        super().__init__(f"a job has at most {CAPACITY} pods on one machine")


class Addresses:
    """Hands out addresses by name. An address stays with its name until it is given back."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """The names are served in order, so that a job's pods have neighbouring addresses."""
        self._numbers: dict[str, int] = {}
        self._returned: list[int] = []
        for name in names:
            self.of(name)

    def of(self, name: str) -> str:
        number = self._numbers.get(name)
        if number is None:
            # Those that were never used come first: a peer may still remember who had a returned one.
            number = len(self._numbers) + len(self._returned)
            if number >= CAPACITY:
                number = self._oldest_returned()
            self._numbers[name] = number
        return address(number)

    def release(self, name: str) -> None:
        """The slot is gone for good, as after scaling down."""
        number = self._numbers.pop(name, None)
        if number is not None:
            self._returned.append(number)

    def _oldest_returned(self) -> int:
        if not self._returned:
            raise AddressesExhaustedError
        return self._returned.pop(0)


def address(number: int) -> str:
    """The address of the pod with this number, counted from 0."""
    if not 0 <= number < CAPACITY:
        raise AddressesExhaustedError
    block, last = divmod(number + _FIRST - 1, _PER_BLOCK)
    return f"10.77.{block}.{last + 1}"
