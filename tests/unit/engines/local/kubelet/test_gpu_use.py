"""The use of GPUs by nvidia-smi: from recorded answers, and from a fake program."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pumice.engines.local.kubelet.gpu_use import GpuUse, gpu_use_of, parse_gpu_use, read_gpu_use

ANSWER = """\
0, GPU-5f9e1c3a-6d38-4f9e-97a0-27c1d1b7e4aa, 97, 30512
1, GPU-0b8c2a11-91a4-6c4e-b7c0-58a2f7a9d001, 0, 3
2, GPU-77ad0f20-2b15-11ee-be56-0242ac120002, [N/A], [N/A]
"""
MIB = 1 << 20


def test_an_answer_is_parsed_by_index_and_uuid() -> None:
    found = parse_gpu_use(ANSWER)
    assert found["0"] == found["GPU-5f9e1c3a-6d38-4f9e-97a0-27c1d1b7e4aa"] == GpuUse(97.0, 30512 * MIB)
    assert found["2"] == GpuUse(None, 0)
    assert len(found) == 6


@pytest.mark.parametrize("text", ["", "No devices were found\n", "NVIDIA-SMI has failed because, it, could not\n"])
def test_an_answer_without_gpus_is_empty(text: str) -> None:
    assert parse_gpu_use(text) == {}


def test_devices_of_a_pod_are_added_up() -> None:
    found = parse_gpu_use(ANSWER)
    assert gpu_use_of(("0", "1"), found) == GpuUse(48.5, 30515 * MIB)
    assert gpu_use_of(("0", "2"), found) == GpuUse(97.0, 30512 * MIB)
    assert gpu_use_of(("MIG-1",), found) == GpuUse(None, 0)


@pytest.mark.parametrize(
    ("script", "known"),
    [
        pytest.param(f"cat <<'END'\n{ANSWER}END", 6, id="answers"),
        pytest.param("echo 0, GPU-1, 1, 1; exit 9", 0, id="fails"),
    ],
)
def test_nvidia_smi_on_the_path_is_called(script: str, known: int, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nPATH=/bin:/usr/bin\n{script}\n")
    program.chmod(0o755)
    assert len(asyncio.run(read_gpu_use({"PATH": str(tmp_path)}))) == known


def test_without_nvidia_smi_the_use_is_unknown(tmp_path: Path) -> None:
    assert asyncio.run(read_gpu_use({"PATH": str(tmp_path)})) == {}
