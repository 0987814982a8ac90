"""A Job file says where its code is. It comes from anybody, so it starts no program of its own choice."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from pumice.client.cluster.submission.code_secrets import fetch_code
from pumice.model import keys
from pumice.model.job import Job, Metadata
from pumice.store.run_errors import InvalidOption, RunError


def _kubeconfig(path: Path, witness: Path) -> Path:
    """Write a kubeconfig whose user is known by a program, which leaves a file."""
    program = {
        "command": sys.executable,
        "args": ["-c", f"open({str(witness)!r}, 'w')"],
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
    }
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": program}}],
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_bytes(msgspec.json.encode(config))
    return path


def _job(kubeconfig: str) -> Job:
    origin = msgspec.json.encode({"on": "prod", "kubeconfig": kubeconfig}).decode()
    return Job(metadata=Metadata(name="train", annotations={keys.CODE: "0" * 64, keys.CODE_FROM: origin}))


def test_a_job_does_not_choose_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    _kubeconfig(tmp_path / "kc.yaml", tmp_path / "started")
    with pytest.raises(InvalidOption, match=r"a Job does not choose the kubeconfig kc\.yaml"):
        fetch_code(_job("kc.yaml"))
    assert not (tmp_path / "started").exists()


def test_the_kubeconfig_of_the_user_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(_kubeconfig(tmp_path / "kc.yaml", tmp_path / "started")))
    with pytest.raises(RunError, match="the credential plugin"):
        fetch_code(_job("kc.yaml"))
    assert (tmp_path / "started").exists()
