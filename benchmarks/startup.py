"""What `pumice --help`, `validate` and `render` cost, beside a bare `python -c pass` in the same run.

And what `runtime/process_life.py` saves: a program that loads its modules and ends, with it and without; and what
`runtime/key_pairs.py` saves, which writes a key that the library could write. Counted is processor time, not the time
that passes, so that other work of the machine changes little.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

from scripts.measuring import processor_time

ROUNDS = 9
EXAMPLE = Path(__file__).parents[1] / "examples" / "pytorch-job.yaml"
PUMICE = str(Path(sys.executable).parent / "pumice")
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "pumice --help": [PUMICE, "--help"],
    "pumice validate": [PUMICE, "validate", str(EXAMPLE)],
    "pumice render": [PUMICE, "render", str(EXAMPLE)],
}

# The largest programs: the command `run`, and the process of a run.
PROGRAMS = ("pumice.cli.run.request", "pumice.engines.local.supervisor.process")
PLAIN = "import {module}"
SAVING = """
from pumice.runtime.process_life import leave, loading
with loading():
    import {module}
leave(0)
"""

LIBRARY_KEY = """
import pumice.model.objects
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
form = (serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption())
ed25519.Ed25519PrivateKey.generate().private_bytes(*form)
"""
OWN_KEY = "from pumice.runtime.key_pairs import make_key_pair; make_key_pair('ed25519')"


def seconds(command: list[str]) -> float:
    with processor_time() as spent:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return spent()


def main() -> int:
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    # In turns, so that a busy moment of the machine does not hit one of them only.
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            times[name].append(seconds(command))
    medians = {name: statistics.median(each) for name, each in times.items()}
    for name, took in medians.items():
        print(f"{name:<16} {1000 * took:>6.0f} ms  {took / medians['python -c pass']:>5.1f} times python")
    for module in PROGRAMS:
        compare(module, "process_life", *(code.format(module=module) for code in (PLAIN, SAVING)))
    compare("ed25519 key by the library", "key_pairs", LIBRARY_KEY, OWN_KEY)
    return 0


def compare(title: str, saver: str, plain: str, saving: str) -> None:
    commands = [[sys.executable, "-c", code] for code in (plain, saving)]
    rounds = [[seconds(command) for command in commands] for _ in range(ROUNDS)]
    before, after = map(min, zip(*rounds, strict=True))
    print(f"{title}: {1000 * before:.0f} ms of a processor, with {saver} {after / before:.2f} of it")


if __name__ == "__main__":
    sys.exit(main())
