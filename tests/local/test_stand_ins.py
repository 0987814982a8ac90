"""What `pumice.toml` puts in the place of an image's programs and files, and what it says of a mistake in it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from pumice.cli.run.options import add_arguments, read_options
from pumice.engines.local.options import SettingsError
from pumice.engines.local.state.settings import Settings


def _read(folder: Path, toml: str) -> Settings:
    (folder / "pumice.toml").write_text(toml, encoding="utf-8")
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return read_options(parser.parse_args([str(folder / "job.yaml")])).settings


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        pytest.param('[programs]\n"a:1" = "x"', "programs: a:1: must be a list of files", id="program, no list"),
        pytest.param('[programs]\n"a:1" = ["./x"]', "programs: a:1: ./x: no such file", id="program, missing"),
        pytest.param(
            '[files]\n"a:1" = "x"',
            'files: a:1: must be { "/path/in/the/container" = "./file" }',
            id="file, no table",
        ),
        pytest.param('[files]\n"a:1" = {"/x" = "./x"}', "files: a:1: ./x: no such file", id="file, missing"),
        pytest.param(
            '[files]\n"a:1" = {"x" = "pumice.toml"}',
            "files: a:1: x: must be a path from the root, such as /x",
            id="file, relative path",
        ),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, toml: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        _read(tmp_path, toml)
    assert str(caught.value) == f"pumice.toml: {message}"


def test_stand_ins_are_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "program").touch()
    (tmp_path / "data").touch()
    settings = _read(tmp_path, '[programs]\n"a:1" = ["./program"]\n[files]\n"a:1" = {"/opt/it" = "data"}\n')
    assert settings.programs == {"a:1": (tmp_path / "program",)}
    assert settings.files == {"a:1": {"/opt/it": tmp_path / "data"}}
