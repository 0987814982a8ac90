"""How long a user waits for `pumice --help` and `pumice validate`, beside a bare `python -c pass` in the same run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 15
EXAMPLE = Path(__file__).parents[1] / "examples" / "pytorch-job.yaml"
PUMICE = str(Path(sys.executable).parent / "pumice")
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "pumice --help": [PUMICE, "--help"],
    "pumice validate": [PUMICE, "validate", str(EXAMPLE)],
    "pumice render": [PUMICE, "render", str(EXAMPLE)],
}


def seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> int:
    best = dict.fromkeys(COMMANDS, float("inf"))
    # In turns, so that a busy moment of the machine does not hit one of them only.
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            best[name] = min(best[name], seconds(command))
    bare = best["python -c pass"]
    for name, took in best.items():
        print(f"{name:<16} {1000 * took:>6.0f} ms  {took / bare:>5.1f} times python")
    return 0


if __name__ == "__main__":
    sys.exit(main())
