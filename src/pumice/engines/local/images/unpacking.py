"""Unpacks an image into a directory that appears by renaming, complete or not at all.

The layers are unpacked into a directory beside it. After a crash the work continues there: layers that were complete
and verified are not read again.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pumice.engines.local.images.blobs import Blobs
from pumice.engines.local.images.config import read_config
from pumice.engines.local.images.errors import ImageError, from_os_error
from pumice.engines.local.images.layers import RootDirectory
from pumice.engines.local.images.sources import ImageSource, Layer, this_machine
from pumice.engines.local.images.streams import COMPRESSION_ERRORS, Forward, decompressed
from pumice.engines.local.state.remove_tree import remove_tree

Report = Callable[[str], None]

ROOT: Final = "rootfs"
RECORD: Final = "image.json"
_PROGRESS: Final = "progress.json"
_DAMAGED: Final = (tarfile.TarError, ValueError, OverflowError, *COMPRESSION_ERRORS)


def unpack(blobs: Blobs, source: ImageSource, target: Path, partial: Path, report: Report) -> None:
    """Fill `partial`, then rename it to `target`. An error removes it; an interruption does not."""
    try:
        _fill(blobs, source, partial, report)
        partial.rename(target)
    except OSError as error:
        remove_tree(partial)
        raise from_os_error(error).within("while unpacking") from None
    except ImageError:
        remove_tree(partial)
        raise


def _fill(blobs: Blobs, source: ImageSource, partial: Path, report: Report) -> None:
    root = partial / ROOT
    root.mkdir(parents=True, exist_ok=True)
    root_directory = RootDirectory(root, keep_owners=os.geteuid() == 0)
    progress = _read_progress(partial)
    root_directory.strict.update(progress["strict"])
    root_directory.warnings.update(progress["warnings"])
    for number, layer in enumerate(source.layers, start=1):
        if progress["done"][number - 1 : number] == [layer.diff_id]:
            continue
        where = f"layer {number} of {len(source.layers)}"
        report(f"unpacking {where}")
        progress["size"] += _apply(root_directory, blobs, layer, where)
        progress["done"].append(layer.diff_id)
        progress.update(strict=root_directory.strict, warnings=root_directory.warnings)
        _write_json(partial / _PROGRESS, progress)
    root_directory.finish()
    config = read_config(source.document)
    warnings = [text if count == 1 else f"{text} ({count})" for text, count in root_directory.warnings.items()]
    if config.architecture not in {"", this_machine()}:
        warnings.append(f"is for {config.architecture}, this machine is {this_machine()}: its programs may not start")
    _write_json(partial / RECORD, {"config": config.to_json(), "size": progress["size"], "warnings": warnings})
    (partial / _PROGRESS).unlink(missing_ok=True)  # missing if there are no layers


def _apply(root_directory: RootDirectory, blobs: Blobs, layer: Layer, where: str) -> int:
    """Apply one layer, verify its digests, and return its uncompressed size."""
    try:
        stored = Forward(blobs.open(layer.file), hashed=layer.digest not in {"", layer.diff_id})
        plain = Forward(decompressed(stored))
        root_directory.apply(plain)
        _check(plain.digest(), layer.diff_id)
        _check(stored.digest(), layer.digest)
    except ImageError as error:
        raise error.within(where) from None
    except _DAMAGED as error:
        raise ImageError(f"{where}: is damaged or cut short: {error}") from None
    except OSError as error:
        raise from_os_error(error).within(where) from None
    return plain.tell()


def _check(found: str, wanted: str) -> None:
    if found and wanted and found != wanted:
        raise ImageError(f"is damaged: its digest is {found}, not {wanted}", "save the image again")


def _read_progress(partial: Path) -> dict[str, Any]:
    fresh: dict[str, Any] = {"done": [], "size": 0, "strict": {}, "warnings": {}}
    with suppress(OSError, ValueError):
        found = json.loads((partial / _PROGRESS).read_text())
        if isinstance(found, dict) and found.keys() == fresh.keys():
            return found
    return fresh


def _write_json(path: Path, document: object) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(document))
    fresh.replace(path)
