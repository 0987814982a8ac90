"""The directories of runs."""

from __future__ import annotations

from pathlib import Path

from pumice.engines.local.runs import KEPT, SCRATCH, claimed


def test_scratch_of_the_dead_is_swept_and_that_of_the_living_is_not(tmp_path: Path) -> None:
    for name in ("dead", "living"):
        (tmp_path / name / SCRATCH / "volumes").mkdir(parents=True)
        (tmp_path / name / KEPT).mkdir()
    with claimed(tmp_path / "living"):
        assert not (tmp_path / "dead" / SCRATCH).exists()
        assert (tmp_path / "dead" / KEPT).exists()
        with claimed(tmp_path / "new"):
            assert (tmp_path / "living" / SCRATCH).exists()
    with claimed(tmp_path / "new"):
        assert not (tmp_path / "living" / SCRATCH).exists()
