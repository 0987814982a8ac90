"""`pull`: fetches an image from its registry and adds it to the store.

The blobs are downloaded to a directory below the store, an OCI layout, which is removed when the image is unpacked. An
interrupted download continues there.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.engines.local.images.errors import ImageError, from_os_error
from pumice.engines.local.images.layers import Report
from pumice.engines.local.images.store import Image, ImageStore
from pumice.engines.local.registry.blob_download import Blob, Transfer, download
from pumice.engines.local.registry.image_reference import (
    ImageReference,
    Platform,
    parse_platform,
    platform_of,
    reference,
    this_platform,
)
from pumice.engines.local.registry.manifests import PulledManifest, fetch_manifest
from pumice.engines.local.registry.registry_client import RegistryClient
from pumice.model.text import plural
from pumice.model.units import size_text
from pumice.store.files.file_lock import lock_at_once
from pumice.store.files.remove_tree import remove_tree

_AT_ONCE: Final = 4
_DOWNLOADS: Final = ".downloads"
_WEEK: Final = 7 * 24 * 3600  # seconds


class PullReport(Struct, frozen=True):
    """Where a pull says what it does: `line` for what stays, `progress` for what the next call replaces."""

    line: Report
    progress: Report
    interval: float = 1.0  # seconds between two calls of `progress`


async def pull(
    name: str, store: ImageStore, environ: Mapping[str, str], report: PullReport, platform: str = ""
) -> Image:
    """Raises ImageError for a bad name, an image that does not exist or is denied; RegistryError for other failures."""
    image = reference(name)
    wanted = parse_platform(platform) if platform else None
    try:
        async with RegistryClient(image, environ) as client:
            manifest = await fetch_manifest(client, wanted or this_platform())
            if (known := store.find_digest(manifest.config.digest)) is not None:
                report.line("is up to date")
                return _named(store, image, known, wanted)
            with download_directory(store.directory, manifest.digest, report.line) as layout:
                # Another process may have pulled it meanwhile.
                if (known := store.find_digest(manifest.config.digest)) is not None:
                    return _named(store, image, known, wanted)
                await fetch_layout(client, manifest, layout, report, wanted)
                try:
                    return store.add(image.name, layout, report.line, source=image.name)
                except ImageError:
                    # What does not unpack is fetched again the next time.
                    remove_tree(layout)
                    raise
    except ImageError as error:
        # The errors of the registry do not know which image they are about.
        raise type(error)(error.problem.message, error.hint, error.problem.where.file or str(image)) from None


def _named(store: ImageStore, image: ImageReference, known: Image, wanted: Platform | None) -> Image:
    """Add a name to an image that is here."""
    if wanted is not None:
        _check_platform(Platform(wanted.system, known.config.architecture, wanted.variant), wanted)
    return store.add_name(image.name, known.digest, image.name)


async def fetch_layout(
    client: RegistryClient, manifest: PulledManifest, layout: Path, report: PullReport, wanted: Platform | None = None
) -> None:
    """Download all blobs, several at once, and complete the OCI layout."""
    layers = [blob for blob in manifest.blobs if blob is not manifest.config]
    transfer = Transfer(manifest.size, len(layers), time.monotonic())
    _check_space(manifest, layout)
    await download(client, manifest.config, layout, transfer)
    if wanted is not None:
        # What is no configuration is reported when the image is unpacked.
        with suppress(ValueError, RecursionError):
            _check_platform(platform_of(json.loads(manifest.config.path(layout).read_bytes())), wanted)
    count = plural(len(layers), "layer")
    report.line(f"pulling from {client.image.host}: {count}, {size_text(manifest.size)}")
    slots = asyncio.Semaphore(_AT_ONCE)

    async def fetch(blob: Blob) -> None:
        async with slots:
            await download(client, blob, layout, transfer)
            transfer.finished_layers += 1

    async def tick() -> None:
        while True:
            await asyncio.sleep(report.interval)
            report.progress(transfer.text(time.monotonic()))

    ticker = asyncio.create_task(tick())
    try:
        async with asyncio.TaskGroup() as group:
            for blob in layers:
                group.create_task(fetch(blob))
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        ticker.cancel()
    report.progress(transfer.text(time.monotonic()))
    _complete(manifest, layout)


def _check_space(manifest: PulledManifest, layout: Path) -> None:
    missing = manifest.size - sum(path.stat().st_size for path in layout.glob("blobs/sha256/*"))
    if missing > (free := shutil.disk_usage(layout).free):
        raise ImageError(
            f"has {size_text(missing)} to download, and the disk has {size_text(free)} left",
            "free some space (`pumice image list` shows what is stored), or move the store with XDG_STATE_HOME",
        )


def _check_platform(found: Platform, wanted: Platform) -> None:
    """A manifest without an index exists for one platform only, which its configuration names."""
    if found.architecture and not wanted.accepts(found):
        raise ImageError(f"does not exist for {wanted}", f"it exists for {found}")


def _complete(manifest: PulledManifest, layout: Path) -> None:
    """Write what makes the directory an OCI layout."""
    blob = Blob(manifest.digest, len(manifest.body), "the manifest")
    entry = {"mediaType": manifest.media_type, "digest": manifest.digest, "size": blob.size}
    try:
        blob.path(layout).write_bytes(manifest.body)
        (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
        (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    except OSError as error:
        raise from_os_error(error) from None


@contextmanager
def download_directory(store: Path, digest: str, report: Report) -> Iterator[Path]:
    """Hold the directory for a manifest. It is removed at the end, and stays if an exception is raised."""
    directory = store / _DOWNLOADS / digest.removeprefix("sha256:")
    try:
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = _locked(directory, report)
    except OSError as error:
        raise from_os_error(error) from None
    try:
        os.utime(held)
        now = directory.stat().st_mtime
        for other in directory.parent.iterdir():
            if other != directory and now - other.stat().st_mtime > _WEEK:
                # Left a week ago; removed if no process holds it.
                descriptor = os.open(other, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                if lock_at_once(descriptor):
                    remove_tree(other)
                os.close(descriptor)
        yield directory
        remove_tree(directory)
    except OSError as error:
        raise from_os_error(error) from None
    finally:
        os.close(held)


def _locked(directory: Path, report: Report) -> int:
    """Lock the directory and return its descriptor. The process that held it before has removed it."""
    while True:
        directory.mkdir(exist_ok=True)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if not lock_at_once(descriptor):
            report("waiting for another pumice process that pulls this image")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), directory.stat()):
                return descriptor
        os.close(descriptor)
