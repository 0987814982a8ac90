"""`pumice image list|add|pull|rm`: manages the images that `pumice run` finds on this machine."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from msgspec.structs import asdict

from pumice.cli.errors import BAD_INPUT, print_error, refuse
from pumice.client.view.output import ProgressLine, columns, table
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.names import familiar
from pumice.engines.local.images.store import Image, ImageStore, images_directory
from pumice.model.units import size_text
from pumice.store.run_errors import InvalidOption

_SHORT_DIGEST = len("sha256:") + 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = ("list", "add", "pull", "rm")
    parser.add_argument("action", metavar="ACTION", choices=actions, help="list, add, pull or rm")
    parser.add_argument(
        "operands",
        metavar="OPERAND",
        nargs="*",
        help="for add NAME=PATH: a directory, or an archive made by `docker save` or `podman save`; "
        "NAME - reads the archive from standard input; for pull and rm NAME",
    )
    parser.add_argument("--platform", metavar="linux/arm64", help="for pull: another platform than this machine's")
    parser.add_argument("--json", action="store_true", help="print one JSON object per image")


def run(args: argparse.Namespace) -> int:
    if (wrong := _misuse(args)) is not None:
        return refuse(f"pumice image {args.action}: {wrong}")
    try:
        store = ImageStore(images_directory())
    except InvalidOption as error:
        print_error(error)
        return BAD_INPUT
    if args.action == "list":
        _list(store.images(), as_json=args.json)
        return 0
    operands = args.operands
    if args.action == "add" and operands[1:] == ["-"]:
        operands = [f"{operands[0]}=-"]
    # After a failure the remaining operands are still processed. The worst code wins: bad input, then a failure.
    return max(_process(store, operand, args) for operand in operands)


def _misuse(args: argparse.Namespace) -> str | None:
    if (args.action == "list") == bool(args.operands):
        needs = {"list": "takes no operand", "add": "needs NAME=PATH, or NAME - for standard input"}
        return needs.get(args.action, "needs NAME")
    if args.platform is not None and args.action != "pull":
        return "takes no --platform; only pull does"
    return None


def _process(store: ImageStore, operand: str, args: argparse.Namespace) -> int:
    """Return the exit code: 2 for what the user can mend, 1 for a registry that fails."""
    try:
        if args.action == "rm":
            store.remove(operand)
            print(json.dumps({"removed": operand}) if args.json else f"{operand}: removed")
            return 0
        image = _pull(store, operand, args.platform or "") if args.action == "pull" else _add(store, operand)
    except ImageError as error:
        print(error.problem.text, file=sys.stderr)
        return error.exit_code
    about = familiar(image.name) if args.action == "pull" else operand.partition("=")[2]
    for warning in image.warnings:
        print(f"{about}: warning: {warning}", file=sys.stderr)
    what = f"{image.digest[:_SHORT_DIGEST]}, {_size(image)}" if image.digest else f"the directory {image.source}"
    print(json.dumps(described(image), ensure_ascii=False) if args.json else f"{familiar(image.name)}: {what}")
    return 0


def _list(images: list[Image], *, as_json: bool) -> None:
    if as_json:
        for image in images:
            print(json.dumps(described(image), ensure_ascii=False))
    elif images:
        rows = [(familiar(i.name), i.digest[:_SHORT_DIGEST] or "-", _size(i), i.source) for i in images]
        print("\n".join(table([("NAME", "DIGEST", "SIZE", "SOURCE"), *rows], width=columns(sys.stdout))))
    else:
        print("no images; add one with `pumice image add NAME=PATH` or `pumice image pull NAME`", file=sys.stderr)


def _add(store: ImageStore, operand: str) -> Image:
    name, equals, path = operand.partition("=")
    if not name or not equals or not path:
        raise ImageError("must be NAME=PATH, such as busybox=busybox.tar, or NAME - for standard input", where=operand)

    def report(text: str) -> None:
        print(f"{'standard input' if path == '-' else path}: {text}", file=sys.stderr)

    if path != "-":
        # Path.expanduser() raises for a user without a home directory.
        return store.add(name, Path(os.path.expanduser(path)), report)
    if sys.stdin is None or sys.stdin.isatty():
        raise ImageError("has no archive", f"docker save IMAGE | pumice image add {name} -", "standard input")
    return store.add_stream(name, sys.stdin.buffer, report, "standard input")


def _pull(store: ImageStore, name: str, platform: str) -> Image:
    import asyncio
    import signal

    from pumice.engines.local.images.names import normalised
    from pumice.engines.local.registry.pull import PullReport, pull

    about = familiar(normalised(name))
    line = ProgressLine(sys.stderr)
    report = PullReport(
        lambda text: line.print(f"{about}: {text}"), lambda text: line.replace(f"{about}: {text}"), line.interval
    )

    async def interruptible() -> Image:
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            # The handler of asyncio would wait until the image is unpacked.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return await pull(name, store, os.environ, report, platform)

    try:
        return asyncio.run(interruptible())
    finally:
        line.end()


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
