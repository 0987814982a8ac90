from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pumice.admission.admit import admit
from pumice.engines.local.container_spec.job_inputs import JobInputs
from pumice.engines.local.preparation.default_settings import default_settings
from pumice.engines.local.preparation.run_header import header_notes
from pumice.model.job import Manifest
from pumice.plugins.shaping import pods
from pumice.runtime.offline_context import offline_context
from tests.local.running import job, task


def _notes(tmp_path: Path, pod: Manifest, container: Manifest, **settings: Any) -> list[str]:
    admitted = admit(job(task("only", "true", pod=pod, container=container)), offline_context())
    assert admitted.is_good, admitted.findings
    inputs = JobInputs(
        job=admitted.job,
        settings=replace(default_settings({"HOME": str(tmp_path)}), **{"python_text": "", **settings}),
        scratch=Path("/run/volumes"),
        documents=(),
        objects=list,
        claims={"data": Path("/claims/data")},
        address_of=lambda _name: "10.0.0.1",
        image_of=lambda _name: None,
        allocatable={},
    )
    return list(header_notes(inputs, admitted.written, [pod.manifest for pod in pods(admitted.job, admitted.plugins)]))


@pytest.mark.parametrize(
    ("source", "keep", "note"),
    [
        pytest.param(
            {"emptyDir": {}},
            False,
            "volume v: /run/volumes/pods/*/volumes/v (removed with its pod), at /v",
            id="a directory per pod",
        ),
        pytest.param({}, True, "volume v: /run/volumes/pods/*/volumes/v (kept), at /v", id="--keep"),
        pytest.param({"emptyDir": {"medium": "Memory"}}, False, "volume v: in memory, at /v", id="memory"),
        pytest.param({"configMap": {"name": "c"}}, False, "volume v: files of configMap, at /v", id="data"),
    ],
)
def test_volumes_are_named_with_their_path(source: Manifest, keep: bool, note: str, tmp_path: Path) -> None:
    mounts = [{"name": "v", "mountPath": "/v"}]
    found = _notes(tmp_path, {"volumes": [{"name": "v", **source}]}, {"volumeMounts": mounts}, keep=keep)
    assert found == ["claim data: /claims/data", note]


def test_claims_and_paths_of_this_machine_have_lines_of_their_own(tmp_path: Path) -> None:
    volumes = [
        {"name": "h", "hostPath": {"path": "/data"}},
        {"name": "p", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "unused", "emptyDir": {}},
    ]
    assert _notes(tmp_path, {"volumes": volumes}, {}) == [
        "claim data: /claims/data",
        "volume unused: /run/volumes/pods/*/volumes/unused (removed with its pod), at no path",
    ]


def test_python_and_overridden_variables(tmp_path: Path) -> None:
    env = [
        {"name": "EPOCHS", "value": "90"},
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    settings = {"env": {"EPOCHS": "1", "POD": "me", "NEW": "x"}, "python_text": "~/venv/bin/python 3.12, torch 2.9"}
    assert _notes(tmp_path, {}, {"env": env}, **settings) == [
        "python ~/venv/bin/python 3.12, torch 2.9",
        "--env EPOCHS overrides the job's EPOCHS=90",
        "--env POD overrides the job's POD=a value of its own",
        "claim data: /claims/data",
    ]
