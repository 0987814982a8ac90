"""Claims by namespace and name."""

from __future__ import annotations

from pathlib import Path

from pumice.engines.local.stored_data import claim_directory, claim_paths, make_claim_directories, note_use
from pumice.model.job import Job, JobSpec, VolumeSpec


def test_claims_of_two_namespaces_are_two_directories(tmp_path: Path) -> None:
    one, other = (claim_directory(tmp_path, namespace, "data") for namespace in ("default", "elsewhere"))
    make_claim_directories([one, other])
    (one / "file").write_text("one")
    make_claim_directories([one, other])
    assert [path.name for path in one.iterdir()] == ["file"]
    assert list(other.iterdir()) == []
    assert one.stat().st_mode & 0o777 == 0o777
    assert one.parent.stat().st_mode & 0o777 == 0o700


def test_claims_of_the_files_and_of_the_job_get_directories(tmp_path: Path) -> None:
    volumes = [
        VolumeSpec(mount_path="/made", volume_claim={"accessModes": ["ReadWriteOnce"]}),
        VolumeSpec(mount_path="/missing", volume_claim_name="missing"),
    ]
    given = {"kind": "PersistentVolumeClaim", "metadata": {"name": "given"}}
    other = {"kind": "ConfigMap", "metadata": {"name": "map"}}
    directories = claim_paths(Job(spec=JobSpec(volumes=volumes)), [given, other], tmp_path)
    assert len(directories) == 2
    assert "given" in directories
    assert "missing" not in directories
    assert not any(each.exists() for each in directories.values())
    make_claim_directories(directories.values())
    assert (tmp_path / "claims").stat().st_mode & 0o777 == 0o700
    # Writable for any user of a container.
    assert {each.stat().st_mode & 0o777 for each in directories.values()} == {0o777}


def test_a_claim_remembers_which_project_used_it_last(tmp_path: Path) -> None:
    claim = claim_directory(tmp_path, "default", "checkpoints")
    make_claim_directories([claim])
    assert note_use(claim, Path("/home/ada/one")) == ""
    assert note_use(claim, Path("/home/ada/two")) == ""  # it has no files that could be confused
    (claim / "model.pt").touch()
    assert note_use(claim, Path("/home/ada/two")) == ""
    assert note_use(claim, Path("/home/ada/one")) == "/home/ada/two"
    assert note_use(claim, Path("/home/ada/one")) == ""
