"""`pumice image list|add|rm`: manages the images that `pumice run` finds without a registry."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from pumice.cli.output import table
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.names import familiar
from pumice.engines.local.images.store import Image, ImageStore, images_directory
from pumice.engines.local.run_errors import SettingsError
from pumice.engines.local.scheduling.fit import size_text

_SHORT_DIGEST = len("sha256:") + 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", metavar="ACTION", choices=("list", "add", "rm"), help="list, add or rm")
    parser.add_argument(
        "operands",
        metavar="OPERAND",
        nargs="*",
        help="for add NAME=PATH: a directory, or an archive made by `docker save`; for rm NAME",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per image")


def run(args: argparse.Namespace) -> int:
    if (args.action == "list") == bool(args.operands):
        usage = {"list": "takes no operand", "add": "needs NAME=PATH", "rm": "needs NAME"}
        print(f"pumice image {args.action}: {usage[args.action]}", file=sys.stderr)
        return 2
    try:
        store = ImageStore(images_directory())
    except SettingsError as error:
        print(error, file=sys.stderr)
        return 2
    if args.action == "list":
        _list(store.images(), as_json=args.json)
        return 0
    act = _add if args.action == "add" else _remove
    # After a failure the remaining operands are still processed.
    return max(act(store, operand, as_json=args.json) for operand in args.operands)


def _list(images: list[Image], *, as_json: bool) -> None:
    if as_json:
        for image in images:
            print(json.dumps(described(image), ensure_ascii=False))
    elif images:
        rows = [(familiar(i.name), i.digest[:_SHORT_DIGEST] or "-", _size(i), i.source) for i in images]
        print("\n".join(table([("NAME", "DIGEST", "SIZE", "SOURCE"), *rows])))
    else:
        print("no images; add one with `pumice image add NAME=PATH`", file=sys.stderr)


def _add(store: ImageStore, operand: str, *, as_json: bool) -> int:
    name, equals, path = operand.partition("=")
    if not name or not equals or not path:
        print(f"{operand}: must be NAME=PATH, such as busybox=busybox.tar", file=sys.stderr)
        return 2
    try:
        # Path.expanduser() raises for a user without a home directory.
        image = store.add(name, Path(os.path.expanduser(path)), lambda text: print(f"{path}: {text}", file=sys.stderr))
    except ImageError as error:
        print(error.problem.text, file=sys.stderr)
        return 2
    for warning in image.warnings:
        print(f"{path}: warning: {warning}", file=sys.stderr)
    what = f"{image.digest[:_SHORT_DIGEST]}, {_size(image)}" if image.digest else f"the directory {image.source}"
    print(json.dumps(described(image), ensure_ascii=False) if as_json else f"{familiar(image.name)}: {what}")
    return 0


def _remove(store: ImageStore, operand: str, *, as_json: bool) -> int:
    try:
        store.remove(operand)
    except ImageError as error:
        print(error.problem.text, file=sys.stderr)
        return 2
    print(json.dumps({"removed": operand}) if as_json else f"{operand}: removed")
    return 0


def described(image: Image) -> dict[str, object]:
    config = {key: value for key, value in asdict(image.config).items() if value}
    return {
        "name": image.name,
        "digest": image.digest or None,
        "size": image.size if image.digest else None,
        "root": str(image.root),
        "source": image.source,
        "config": config,
        "warnings": list(image.warnings),
    }


def _size(image: Image) -> str:
    return size_text(image.size) if image.digest else "-"
