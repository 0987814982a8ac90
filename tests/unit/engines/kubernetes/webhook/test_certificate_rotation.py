from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.webhook.certificate_rotation import (
    CertificateRotation,
    CertificateStorage,
    LocalStorage,
)
from pumice.engines.kubernetes.webhook.certificates import AUTHORITY_LIFE, CERTIFICATE_LIFE, OVERLAP, Credentials
from pumice.engines.kubernetes.webhook.registration import Publication
from tests.unit.engines.kubernetes.played_api import play

NOW = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
NAMES = ["127.0.0.1"]


@dataclass(slots=True)
class ContestedStorage:
    """Storage that another replica writes to first, a few times."""

    others: list[Credentials]
    inner: LocalStorage = field(default_factory=LocalStorage)

    async def load(self) -> Credentials | None:
        return await self.inner.load()

    async def save(self, credentials: Credentials) -> bool:
        if self.others:
            self.inner.stored = self.others.pop()
            return False
        return await self.inner.save(credentials)

    async def changed(self) -> None:
        await self.inner.changed()


class Recorder:
    """Runs a rotation and records what it does, in order."""

    def __init__(self, storage: CertificateStorage | None = None) -> None:
        self.now = NOW
        self.trusted = True
        self.refusal: ApiError | None = None
        self.publications: list[Publication] = []
        self.steps: list[tuple[str, object]] = []
        self.was_served = asyncio.Event()
        self.rotation = CertificateRotation(
            storage or LocalStorage(), NAMES, lambda: self.now, self._publish, self._serve, settling=0
        )

    async def _publish(self, bundle: bytes, _keep: bool) -> Publication:
        if self.refusal is not None:
            raise self.refusal
        self.steps.append(("published", bundle))
        return self.publications.pop(0) if self.publications else Publication(trusted=self.trusted)

    def _serve(self, credentials: Credentials) -> None:
        self.steps.append(("served", credentials))
        self.was_served.set()

    def rotate(self, after: dt.timedelta = dt.timedelta()) -> list[tuple[str, object]]:
        self.now += after
        self.steps.clear()
        asyncio.run(self.rotation.rotate())
        return list(self.steps)

    @property
    def served(self) -> Credentials:
        assert self.rotation.served is not None
        return self.rotation.served


def names(steps: list[tuple[str, object]]) -> list[str]:
    return [name for name, _ in steps]


def test_the_ca_is_published_before_the_certificate_is_served() -> None:
    recorder = Recorder()
    steps = recorder.rotate()
    assert names(steps) == ["published", "served"]
    assert steps[0][1] == recorder.served.authority


def test_the_ca_is_published_again_on_every_pass() -> None:
    recorder = Recorder()
    recorder.rotate()
    assert names(recorder.rotate(DAY)) == ["published"]


def test_the_certificate_is_renewed_before_it_expires() -> None:
    recorder = Recorder()
    recorder.rotate()
    first = recorder.served
    assert names(recorder.rotate(CERTIFICATE_LIFE * 2 / 3 + DAY)) == ["published", "served"]
    assert recorder.served.certificate != first.certificate
    assert recorder.served.authority == first.authority


def test_an_untrusted_new_ca_does_not_replace_the_served_certificate() -> None:
    recorder = Recorder()
    recorder.rotate()
    first = recorder.served
    recorder.trusted = False
    assert names(recorder.rotate(AUTHORITY_LIFE * 2 / 3 + DAY)) == ["published"]
    assert recorder.served == first
    recorder.trusted = True
    assert names(recorder.rotate()) == ["published", "served"]
    assert recorder.served.authority != first.authority


def test_the_first_certificate_is_served_even_if_untrusted() -> None:
    recorder = Recorder()
    recorder.trusted = False
    assert names(recorder.rotate()) == ["published", "served"]


def test_the_certificate_of_a_faster_replica_is_used() -> None:
    other = Recorder()
    other.rotate()
    recorder = Recorder(ContestedStorage([other.served]))
    recorder.rotate()
    assert recorder.served == other.served


def test_repeated_write_conflicts_raise_an_error() -> None:
    damaged = Credentials(b"", b"", b"", b"")
    recorder = Recorder(ContestedStorage([damaged] * 10))
    with pytest.raises(OSError, match="another writer replaced"):
        recorder.rotate()


def test_a_failed_rotation_is_retried() -> None:
    recorder = Recorder()
    recorder.refusal = ApiError(500, "InternalError", "no")

    async def fail_then_recover() -> None:
        running = asyncio.create_task(recorder.rotation.run(interval=0.01))
        await asyncio.sleep(0.05)
        assert not running.done()
        recorder.refusal = None
        await recorder.was_served.wait()
        running.cancel()

    play(fail_then_recover())


class TestFile:
    def test_certificates_outlive_the_process(self, tmp_path: Path) -> None:
        path = tmp_path / "state" / "certificates.json"
        first, second = Recorder(LocalStorage(path)), Recorder(LocalStorage(path))
        first.rotate()
        second.rotate()
        assert first.served == second.served
        assert path.stat().st_mode & 0o777 == 0o600
        assert [file.name for file in path.parent.iterdir()] == ["certificates.json"]

    @pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"ca.crt": 1}', b'{"ca.crt": "?"}', b"\xff"], ids=repr)
    def test_a_damaged_file_is_replaced(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "certificates.json"
        path.write_bytes(content)
        recorder = Recorder(LocalStorage(path))
        recorder.rotate()
        assert asyncio.run(LocalStorage(path).load()) == recorder.served


class TestLostCertificates:
    """The storage is emptied or damaged while certificates are served."""

    @pytest.mark.parametrize(
        "left",
        [
            pytest.param(None, id="emptied"),
            pytest.param(Credentials(b"no", b"no", b"no", b"no"), id="garbage"),
        ],
    )
    def test_the_old_authority_stays_published(self, left: Credentials | None) -> None:
        storage = LocalStorage()
        recorder = Recorder(storage)
        recorder.rotate()
        first = recorder.served
        storage.stored = left
        published, _ = recorder.rotate()
        assert published == ("published", recorder.served.issuer + first.issuer)
        assert recorder.served.issuer != first.issuer
        # Another replica may serve the old certificate for a while, but not for ever.
        assert recorder.rotate() == [("published", recorder.served.issuer + first.issuer)]
        assert recorder.rotate(OVERLAP) == [("published", recorder.served.issuer)]

    def test_the_certificate_is_served_only_after_the_bundle_has_settled(self) -> None:
        """Also by a replica that has just started, while another one serves an old certificate."""
        recorder = Recorder()
        recorder.publications = [
            Publication(replaced=True, is_sole=False),
            Publication(replaced=True, is_sole=False),  # another client has removed the authority again
            Publication(is_sole=False),
        ]
        assert names(recorder.rotate()) == ["published", "published", "published", "served"]

    def test_a_change_of_the_storage_starts_a_pass(self) -> None:
        class Watched(LocalStorage):
            was_changed = asyncio.Event()

            async def changed(self) -> None:
                await self.was_changed.wait()
                self.was_changed.clear()

        storage = Watched()
        recorder = Recorder(storage)

        async def story() -> None:
            running = asyncio.create_task(recorder.rotation.run(interval=600))
            await recorder.was_served.wait()
            first = recorder.served
            recorder.was_served.clear()
            storage.stored = None
            storage.was_changed.set()
            await recorder.was_served.wait()
            assert recorder.served.issuer != first.issuer
            running.cancel()

        play(story())
