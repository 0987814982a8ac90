from __future__ import annotations

import ipaddress

import pytest

from pumice.engines.local.network.addresses import (
    CAPACITY,
    GATEWAY,
    NETWORK,
    Addresses,
    AddressesExhaustedError,
    address,
)


def test_address() -> None:
    assert [address(number) for number in (0, 1, 244, 245, CAPACITY - 1)] == [
        "10.77.0.10",
        "10.77.0.11",
        "10.77.0.254",
        "10.77.1.1",
        "10.77.255.254",
    ]


def test_all_addresses_are_valid_and_different() -> None:
    every = [address(number) for number in range(CAPACITY)]
    assert len(set(every)) == CAPACITY >= 65_000
    network = ipaddress.ip_network(NETWORK)
    assert GATEWAY not in every
    assert all(ipaddress.ip_address(found) in network for found in every[::97])
    assert not any(found.endswith((".0", ".255")) for found in every)


@pytest.mark.parametrize("number", [-1, CAPACITY])
def test_a_number_out_of_range(number: int) -> None:
    with pytest.raises(AddressesExhaustedError, match="at most 65015 pods"):
        address(number)


def test_an_address_stays_with_its_slot() -> None:
    addresses = Addresses(["master-0", "worker-0"])
    assert addresses.of("worker-0") == "10.77.0.11"
    assert addresses.of("worker-1") == "10.77.0.12"
    assert addresses.of("worker-2") == "10.77.0.13"
    assert addresses.of("master-0") == "10.77.0.10"


def test_more_pods_than_addresses() -> None:
    addresses = Addresses(map(str, range(CAPACITY)))
    with pytest.raises(AddressesExhaustedError):
        addresses.of("one more")
    assert addresses.of("7") == address(7)
