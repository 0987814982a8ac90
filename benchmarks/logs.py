"""Logs: what the index costs, and merging beside `sed` that puts the same prefixes on the same bytes.

Eight programs print 50,000 lines each into pipes, at once. Printed is the processor time of the process that reads the
pipes, with and without an index. Then the logs are merged and written to /dev/null, and `sed` does the same with each
file; the time that eight `sed` take to start, measured with empty files, is subtracted. The ratio is that of the best
of several rounds, in turn. `small batches` is the worst case: a record for each line, in turn from all pods.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from pumice.engines.local.kubelet.container_logs import LogPump
from pumice.store.journal import SequenceNumbers
from pumice.store.logs.log_file import LogFile
from pumice.store.logs.log_reader import LogReader
from scripts.measuring import timed

PODS = 8
LINES = 50_000
ROUNDS = 7
PRINT = (
    "for i in range({lines}): print(f'step {{i}} of {lines}: loss {{1 / (i + 1):.6f}}, 1234 samples/s on rank {pod}')"
)


@dataclass(frozen=True, slots=True)
class TextOnly:
    """A log without index, as the baseline."""

    file: int

    def write(self, data: bytes, _stream: str) -> None:
        os.write(self.file, data)

    def close(self) -> None:
        os.close(self.file)


def log_path(run: Path, pod: int) -> Path:
    directory = run / "pods" / f"worker-{pod}" / "1"
    directory.mkdir(parents=True, exist_ok=True)
    return directory / "main.0.log"


async def pump(run: Path, *, indexed: bool) -> float:
    """Write the logs of a run; return the processor time of this process."""
    numbers = SequenceNumbers()
    pumps, files = [], []
    for pod in range(PODS):
        path = log_path(run, pod)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        file = LogFile(path, sys.exit, numbers.next) if indexed else TextOnly(os.open(path, flags, 0o600))
        each = LogPump(f"worker-{pod}", "main", "stdout", file, lambda _lines: None)
        pipe = each.open()
        program = PRINT.format(lines=LINES, pod=pod)
        pumps.append((each, await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=pipe)))
        os.close(pipe)
        files.append(file)
    began = time.process_time()
    for each, process in pumps:
        await each.drained()
        await process.wait()
    took = time.process_time() - began
    for file in files:
        file.close()
    return took


def write_line_by_line(run: Path, source: Path) -> None:
    numbers = SequenceNumbers()
    files = [LogFile(log_path(run, pod), sys.exit, numbers.next) for pod in range(PODS)]
    for lines in zip(
        *(log_path(source, pod).read_bytes().splitlines(keepends=True) for pod in range(PODS)), strict=True
    ):
        for file, line in zip(files, lines, strict=True):
            file.write(line)
    for file in files:
        file.close()


def merge(run: Path) -> None:
    reader = LogReader(run, prefix=lambda execution: f"{execution.pod}  ".encode())
    with Path(os.devnull).open("wb") as out:
        out.writelines(b"".join(map(itemgetter(4), batches)) for batches in reader.read())


def sed(run: Path) -> None:
    for pod in range(PODS):
        argv = ["sed", f"s/^/worker-{pod}  /", str(log_path(run, pod))]
        subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        runs = [Path(name) / each for each in ("plain", "indexed", "small", "empty")]
        plain, indexed, small, empty = runs
        costs = [asyncio.run(pump(plain, indexed=False)), asyncio.run(pump(indexed, indexed=True))]
        size = sum(log_path(indexed, pod).stat().st_size for pod in range(PODS))
        records = sum(path.stat().st_size // 32 for path in indexed.rglob("*.idx"))
        print(f"{PODS} pods x {LINES:,} lines, {size / 1e6:.0f} MB, {records:,} batches")
        print(f"reading pipes   text {costs[0]:.2f} s   with index {costs[1]:.2f} s   ratio {costs[1] / costs[0]:.2f}")
        write_line_by_line(small, indexed)
        for pod in range(PODS):
            log_path(empty, pod).touch()
        works = [(merge, indexed), (merge, small), (sed, indexed), (sed, empty)]
        took: list[list[float]] = [[] for _ in works]
        for _ in range(ROUNDS):
            for (work, run), times in zip(works, took, strict=True):
                with timed(times):
                    work(run)
        merged, merged_small, filtered, start = map(min, took)
        filtered -= start
        print(f"sed             {filtered:.3f} s, without its start")
        print(f"merge           {merged:.3f} s   ratio {merged / filtered:.2f}")
        print(f"small batches   {merged_small:.3f} s   ratio {merged_small / filtered:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
