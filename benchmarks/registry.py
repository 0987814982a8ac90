"""How fast an image comes from a registry, beside `skopeo copy docker://... dir:` in the same run.

A real registry (docker-registry) on a loopback address serves an image of 1 GB in four layers of random bytes. Both
clients fetch it to the same disk and check every digest; neither unpacks it. They take turns, and start with an empty
directory each time. Printed are the best of several rounds in MB/s with everything from the start of the program, and
the ratio, which must be at least 0.5.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scripts.programs import Program, installer, named, provide
from tests.local.registry import Registry, registry
from tests.unit.engines.local.images.archives import E, layer

SKOPEO = Program("skopeo", "skopeo", "the client to compare with")
LAYERS = 4
ROUNDS = 3
LEAST = 0.5
# What `pumice image pull` does before it unpacks.
FETCH = """
import asyncio, os, sys
from pathlib import Path
from pumice.engines.local.registry.image_reference import reference
from pumice.engines.local.registry.manifests import fetch_manifest
from pumice.engines.local.registry.image_reference import this_platform
from pumice.engines.local.registry.pull import PullReport, fetch_layout
from pumice.engines.local.registry.registry_client import RegistryClient

async def main():
    async with RegistryClient(reference(sys.argv[1]), os.environ) as client:
        manifest = await fetch_manifest(client, this_platform())
        await fetch_layout(client, manifest, Path(sys.argv[2]), PullReport(print, print))

asyncio.run(main())
"""


def seconds(argv: list[str], folder: Path) -> float:
    began = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    found = time.perf_counter() - began
    shutil.rmtree(folder)
    return found


def by_pumice(server: Registry, folder: Path) -> float:
    folder.mkdir()
    return seconds([sys.executable, "-c", FETCH, f"{server.host}/big:1", str(folder)], folder)


def by_skopeo(server: Registry, folder: Path) -> float:
    flags = ["--insecure-policy", "copy", "--quiet", "--src-tls-verify=false"]
    return seconds(["skopeo", *flags, f"docker://{server.host}/big:1", f"dir:{folder}"], folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000, help="the size of the image")
    size = parser.parse_args().megabytes * 1_000_000
    table, missing = provide([named("docker-registry"), SKOPEO], install=installer())
    if missing:
        print(f"not measured:\n{table}")
        return 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as temporary:
        base = Path(temporary)
        with registry(base / "registry") as server:
            layers = [layer(E("data", os.urandom(size // LAYERS))) for _ in range(LAYERS)]
            server.push("big", "1", layers, compressed=False)
            del layers
            clients: dict[str, Callable[[Registry, Path], float]] = {"skopeo": by_skopeo, "pumice": by_pumice}
            best = dict.fromkeys(clients, float("inf"))
            for _ in range(ROUNDS):
                for name, fetch in clients.items():
                    best[name] = min(best[name], fetch(server, base / "out"))
    for name, found in best.items():
        print(f"{name:<10} {found:6.2f} s {size / found / 1e6:8.0f} MB/s")
    ratio = best["skopeo"] / best["pumice"]
    print(f"{'ratio':<10} {ratio:6.2f}   at least {LEAST}")
    return 0 if ratio >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main())
