"""What `validate`, `render` and `simulate` print for all examples."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pumice.model.vocabulary import GANG_PROVIDERS
from tests.golden.console import Console, Goldens

# Jobs whose objects are golden in full, so that a difference can be read; of the others, their hashes.
IN_FULL = ("pytorch-job.yaml", "mpi-plugin.yaml", "volumes.yaml")


def offline_goldens(console: Console, examples: Path) -> Goldens:
    """Call it in the directory of the examples."""
    files = sorted(
        str(path.relative_to(examples))
        for path in examples.rglob("*.yaml")
        if path.parent.name not in {"scenarios", "roles"}
    )
    found: Goldens = {"offline/validate": {}, "offline/render": {}, "offline/simulate": {}}
    for file in files:
        found["offline/validate"] |= console.show(f"validate {file}")
        for gang in GANG_PROVIDERS:
            for title, text in console.show(f"render {file} --gang {gang}").items():
                full = file in IN_FULL and gang == next(iter(GANG_PROVIDERS))
                digest = f"sha256 {hashlib.sha256(text.encode()).hexdigest()}\n"
                found["offline/render"][title] = text if full else digest
    for scenario in sorted((examples / "scenarios").glob("*.yaml")):
        # Its first line is the command.
        line = scenario.read_text().partition("\n")[0].removeprefix("# pumice ").replace("examples/", "")
        found["offline/simulate"] |= console.show(line)
    return found
