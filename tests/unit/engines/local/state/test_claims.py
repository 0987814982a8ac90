"""Claims by namespace and name, and claims of older versions, which had no namespace."""

from __future__ import annotations

from pathlib import Path

from pumice.engines.local.state.claims import claim_directory, claim_paths, make_claim_directories
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


def test_an_old_claim_moves_to_the_first_namespace_that_uses_it(tmp_path: Path) -> None:
    """Also one that is called like its namespace; and a namespace is not taken for a claim."""
    for name in ("data", "default"):
        (tmp_path / "claims" / name).mkdir(parents=True)
        (tmp_path / "claims" / name / "file").write_text(name)
    names = (("default", "data"), ("default", "default"), ("elsewhere", "data"), ("elsewhere", "default"))
    directories = [claim_directory(tmp_path, *each) for each in names]
    make_claim_directories(directories)
    assert [(path / "file").exists() for path in directories] == [True, True, False, False]
    assert [(path / "file").read_text() for path in directories[:2]] == ["data", "default"]
    assert sorted(path.name for path in (tmp_path / "claims").iterdir()) == ["default", "elsewhere"]


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
