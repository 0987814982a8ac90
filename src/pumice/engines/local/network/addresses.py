"""Assigns addresses to pods, from 10.77.0.10 upwards. A slot's pod has the same address each time it is created."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pumice.model.pumice_error import PumiceError

NETWORK: Final = "10.77.0.0/16"
GATEWAY: Final = "10.77.0.1"

_FIRST: Final = 10
# Some programs take addresses that end in 0 or 255 for a network or a broadcast address.
_PER_BLOCK: Final = 254
_BLOCKS: Final = 256
CAPACITY: Final = _PER_BLOCK * _BLOCKS - (_FIRST - 1)


class AddressesExhaustedError(PumiceError):
    def __init__(self) -> None:
        super().__init__(f"a job can have at most {CAPACITY} pods on one machine")


class Addresses:
    def __init__(self, names: Iterable[str] = ()) -> None:
        """Assign addresses to the names in order, so that a job's pods have neighbouring addresses."""
        self._numbers: dict[str, int] = {}
        self._released: list[int] = []
        for name in names:
            self.of(name)

    def of(self, name: str) -> str:
        """Return the address of a name; assign one the first time."""
        number = self._numbers.get(name)
        if number is None:
            # Unused addresses first: peers may still have connections to a released one.
            number = len(self._numbers) + len(self._released)
            if number >= CAPACITY:
                if not self._released:
                    raise AddressesExhaustedError
                number = self._released.pop(0)
            self._numbers[name] = number
        return address(number)

    def release(self, name: str) -> None:
        """Forget a name, as after scaling down."""
        number = self._numbers.pop(name, None)
        if number is not None:
            self._released.append(number)


def address(number: int) -> str:
    """Return the address with this number, counted from 0."""
    if not 0 <= number < CAPACITY:
        raise AddressesExhaustedError
    block, last = divmod(number + _FIRST - 1, _PER_BLOCK)
    return f"10.77.{block}.{last + 1}"
