from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.webhook.certificate_rotation import CertificateKeeper
from pumice.engines.kubernetes.webhook.certificate_storage import InFile, InMemory, Place
from pumice.engines.kubernetes.webhook.certificates import AUTHORITY_LIFE, CERTIFICATE_LIFE, Credentials
from tests.unit.engines.kubernetes.played_api import play

NOW = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
NAMES = ["127.0.0.1"]


@dataclass(slots=True)
class Contested:
    """A place that another replica writes to first, a few times."""

    others: list[Credentials]
    inner: InMemory = field(default_factory=InMemory)

    async def load(self) -> Credentials | None:
        return await self.inner.load()

    async def save(self, credentials: Credentials) -> bool:
        if self.others:
            self.inner.kept = self.others.pop()
            return False
        return await self.inner.save(credentials)


class World:
    """What a keeper does, in order."""

    def __init__(self, place: Place | None = None) -> None:
        self.now = NOW
        self.trusted = True
        self.refusal: ApiError | None = None
        self.steps: list[tuple[str, object]] = []
        self.was_shown = asyncio.Event()
        self.keeper = CertificateKeeper(
            place or InMemory(), NAMES, lambda: self.now, self._announce, self._show, settling=0
        )

    async def _announce(self, authority: bytes) -> bool:
        if self.refusal is not None:
            raise self.refusal
        self.steps.append(("announced", authority))
        return self.trusted

    def _show(self, credentials: Credentials) -> None:
        self.steps.append(("shown", credentials))
        self.was_shown.set()

    def turn(self, after: dt.timedelta = dt.timedelta()) -> list[tuple[str, object]]:
        self.now += after
        self.steps.clear()
        asyncio.run(self.keeper.turn())
        return list(self.steps)

    @property
    def shown(self) -> Credentials:
        assert self.keeper.shown is not None
        return self.keeper.shown


def words(steps: list[tuple[str, object]]) -> list[str]:
    return [word for word, _ in steps]


def test_the_authority_is_announced_before_the_certificate_is_shown() -> None:
    world = World()
    steps = world.turn()
    assert words(steps) == ["announced", "shown"]
    assert steps[0][1] == world.shown.authority


def test_a_good_certificate_is_announced_again_in_case_somebody_undid_it() -> None:
    world = World()
    world.turn()
    assert words(world.turn(DAY)) == ["announced"]


def test_it_is_renewed_before_its_end() -> None:
    world = World()
    world.turn()
    first = world.shown
    assert words(world.turn(CERTIFICATE_LIFE * 2 / 3 + DAY)) == ["announced", "shown"]
    assert world.shown.certificate != first.certificate
    assert world.shown.authority == first.authority


def test_a_new_authority_that_is_not_trusted_yet_does_not_replace_the_old_certificate() -> None:
    world = World()
    world.turn()
    first = world.shown
    world.trusted = False
    assert words(world.turn(AUTHORITY_LIFE * 2 / 3 + DAY)) == ["announced"]
    assert world.shown == first
    world.trusted = True
    assert words(world.turn()) == ["announced", "shown"]
    assert world.shown.authority != first.authority


def test_the_first_certificate_is_shown_even_if_nobody_trusts_it() -> None:
    world = World()
    world.trusted = False
    assert words(world.turn()) == ["announced", "shown"]


def test_what_another_replica_made_first_is_taken() -> None:
    other = World()
    other.turn()
    world = World(Contested([other.shown]))
    world.turn()
    assert world.shown == other.shown


def test_a_quarrel_without_end_is_told() -> None:
    damaged = Credentials(b"", b"", b"", b"")
    world = World(Contested([damaged] * 10))
    with pytest.raises(OSError, match="again and again"):
        world.turn()


def test_an_error_is_tried_again() -> None:
    world = World()
    world.refusal = ApiError(500, "InternalError", "no")

    async def some_time() -> None:
        running = asyncio.create_task(world.keeper.run(interval=0.01))
        await asyncio.sleep(0.05)
        assert not running.done()
        world.refusal = None
        await world.was_shown.wait()
        running.cancel()

    play(some_time())


class TestFile:
    def test_certificates_outlive_the_process(self, tmp_path: Path) -> None:
        place = tmp_path / "state" / "certificates.json"
        first, second = World(InFile(place)), World(InFile(place))
        first.turn()
        second.turn()
        assert first.shown == second.shown
        assert place.stat().st_mode & 0o777 == 0o600
        assert [path.name for path in place.parent.iterdir()] == ["certificates.json"]

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"ca.crt": 1}', b'{"ca.crt": "?"}', b"\xff"], ids=repr)
    def test_a_damaged_file_is_replaced(self, tmp_path: Path, content: bytes) -> None:
        place = tmp_path / "certificates.json"
        place.write_bytes(content)
        world = World(InFile(place))
        world.turn()
        assert asyncio.run(InFile(place).load()) == world.shown
