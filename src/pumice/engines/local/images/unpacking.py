"""Unpacks an image into a directory that appears all at once, or not at all.

The work is done in a directory beside it. What is there after a crash is taken up again: layers that were finished and
checked are not read a second time.
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
from pumice.engines.local.images.layers import Unpacking
from pumice.engines.local.images.sources import ImageSource, Layer, this_machine
from pumice.engines.local.images.streams import COMPRESSION_ERRORS, Forward, decompressed
from pumice.engines.local.state.remove_tree import remove_tree

Tell = Callable[[str], None]

ROOT: Final = "rootfs"
RECORD: Final = "image.json"
_PROGRESS: Final = "progress.json"
_DAMAGED: Final = (tarfile.TarError, ValueError, OverflowError, *COMPRESSION_ERRORS)


def unpack(blobs: Blobs, source: ImageSource, target: Path, partial: Path, tell: Tell) -> None:
    """Fill `partial`, then give it the name `target`. If that fails for good, nothing is left of it."""
    try:
        _fill(blobs, source, partial, tell)
        partial.rename(target)
    except OSError as error:
        remove_tree(partial)
        raise from_os_error("while it was unpacked", error) from None
    except ImageError:
        remove_tree(partial)
        raise


def _fill(blobs: Blobs, source: ImageSource, partial: Path, tell: Tell) -> None:
    root = partial / ROOT
    root.mkdir(parents=True, exist_ok=True)
    unpacking = Unpacking(root, keep_owners=os.geteuid() == 0)
    progress = _read_progress(partial)
    unpacking.strict.update(progress["strict"])
    unpacking.warnings.update(progress["warnings"])
    for number, layer in enumerate(source.layers, start=1):
        if progress["done"][number - 1 : number] == [layer.diff_id]:
            continue
        where = f"layer {number} of {len(source.layers)}"
        tell(f"unpacking {where}")
        progress["size"] += _apply(unpacking, blobs, layer, where)
        progress["done"].append(layer.diff_id)
        progress.update(strict=unpacking.strict, warnings=unpacking.warnings)
        _write_json(partial / _PROGRESS, progress)
    unpacking.finish()
    config = read_config(source.document)
    warnings = [text if count == 1 else f"{text} ({count})" for text, count in unpacking.warnings.items()]
    if config.architecture not in {"", this_machine()}:
        warnings.append(f"is for {config.architecture}, this machine is {this_machine()}: its programs may not start")
    _write_json(partial / RECORD, {"config": config.to_json(), "size": progress["size"], "warnings": warnings})
    (partial / _PROGRESS).unlink(missing_ok=True)  # as of an image without layers


def _apply(unpacking: Unpacking, blobs: Blobs, layer: Layer, where: str) -> int:
    """Apply one layer, and hold it against its digests. How large it is without compression."""
    try:
        stored = Forward(blobs.open(layer.file), hashed=layer.digest not in {"", layer.diff_id})
        plain = Forward(decompressed(stored))
        unpacking.apply(plain)
        _check(plain.digest(), layer.diff_id)
        _check(stored.digest(), layer.digest)
    except ImageError as error:
        raise ImageError(f"{where}: {error.message}", error.hint) from None
    except _DAMAGED as error:
        raise ImageError(f"{where}: is damaged or cut short: {error}") from None
    except OSError as error:
        raise from_os_error(where, error) from None
    return plain.tell()


def _check(found: str, wanted: str) -> None:
    if found and wanted and found != wanted:
        raise ImageError(f"is damaged: its digest is {found}, not {wanted}", "save the image anew")


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
