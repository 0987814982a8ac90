"""What `make kubelet` tells the tests: where the programs and the directory of this run are."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

VARIABLE = "PUMICE_KUBELET"  # names the file with the settings; tests/kubelet is skipped without it
NODE_ADDRESS = "10.244.0.1"  # of the node on the bridge of its pods
SERVICE_ADDRESS = "10.0.0.1"  # of the Service `kubernetes`


@dataclass(frozen=True, slots=True)
class Settings:
    folder: Path  # removed after the run
    cgroup: str  # below each hierarchy of cgroups; removed after the run
    kubelet: str
    path: str  # where containerd, its shim, ctr and runc are found
    plugins: str  # the directory of the CNI plugins
    python: str  # one that has torch, or nothing
    mounts: tuple[str, ...]  # host directories that every container sees, read-only

    def write(self, file: Path) -> None:
        file.write_text(
            json.dumps({name: str(value) if name == "folder" else value for name, value in asdict(self).items()})
        )

    @classmethod
    def read(cls, file: Path) -> Self:
        values = json.loads(file.read_text())
        return cls(**{**values, "folder": Path(values["folder"]), "mounts": tuple(values["mounts"])})
