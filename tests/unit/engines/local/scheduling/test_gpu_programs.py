from __future__ import annotations

import os
from pathlib import Path

import pytest

from pumice.engines.local.scheduling.machine import read_gpu_programs

ANSWERS = """
case "$1" in
  --query-gpu=index,uuid) printf '0, GPU-aa\\n1, GPU-bb\\n' ;;
  --query-compute-apps=gpu_uuid,pid,process_name)
    printf 'GPU-bb, 42, /usr/bin/python3\\nGPU-bb, 43, [Not Found]\\nGPU-cc, 44, a, b\\n' ;;
esac
"""


@pytest.mark.parametrize(
    ("script", "found"),
    [
        pytest.param(
            ANSWERS,
            {
                "1": "python3 (pid 42), [Not Found] (pid 43)",
                "GPU-bb": "python3 (pid 42), [Not Found] (pid 43)",
                "GPU-cc": "a, b (pid 44)",
            },
            id="programs on two GPUs",
        ),
        pytest.param("echo No devices were found", {}, id="no GPU"),
        pytest.param("printf 'a, b, c\\n'; exit 9", {}, id="the driver does not answer"),
        pytest.param(None, {}, id="cannot be started"),
    ],
)
def test_programs_by_index_and_uuid(tmp_path: Path, script: str | None, found: dict[str, str]) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n" if script else "#!/no/such/shell\n")
    program.chmod(0o755)
    assert read_gpu_programs({"PATH": f"{tmp_path}{os.pathsep}/bin"}) == found


def test_without_nvidia_smi(tmp_path: Path) -> None:
    assert read_gpu_programs({"PATH": str(tmp_path)}) == {}
