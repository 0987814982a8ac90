"""The user's own config.toml: consent that no project can give itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.client.run_options.toml_files import UserConfig, read_user_config
from pumice.store.options import Network
from pumice.store.run_errors import InvalidOption
from pumice.store.settings import ExtraMount


def _read(tmp_path: Path, text: str) -> UserConfig:
    (tmp_path / "pumice").mkdir()
    (tmp_path / "pumice" / "config.toml").write_text(text)
    return read_user_config({"XDG_CONFIG_HOME": str(tmp_path)})


def test_good_config(tmp_path: Path) -> None:
    text = f'pids-limit = 9\nmount = ["{tmp_path}:/data:ro"]\nallow-host-path = ["/srv/x"]\n'
    text += 'env = ["A=b"]\nnetwork = "job"\nunconfined = true\nworkdir-read-only = false\n'
    config = _read(tmp_path, text)
    assert config.values == {
        "pids_limit": 9,
        "mount": (ExtraMount(tmp_path, read_only=True, at=Path("/data")),),
        "allow_host_path": (Path("/srv/x"),),
        "env": {"A": "b"},
        "network": Network.JOB,
        "unconfined": True,
        "workdir_read_only": False,
    }


def test_no_config(tmp_path: Path) -> None:
    assert read_user_config({"HOME": str(tmp_path)}) == UserConfig()
    assert read_user_config({"XDG_CONFIG_HOME": "relative", "HOME": str(tmp_path)}) == UserConfig()


def test_a_config_that_cannot_be_looked_for_is_not_taken_for_none(tmp_path: Path) -> None:
    """A name that is too long fails for root too, as a directory without permission does for others."""
    with pytest.raises(OSError, match="File name too long"):
        read_user_config({"XDG_CONFIG_HOME": str(tmp_path / ("x" * 300))})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("mount = 1", "config.toml: mount: 1: must be a text, or a list of texts", id="kind"),
        pytest.param("env = [1]", "config.toml: env: must be a text, found a number", id="kind in a list"),
        pytest.param('network = "x"', "config.toml: network: x: must be one of job, outbound", id="choice"),
        pytest.param("disk-limit = true", "config.toml: disk-limit: True: must be a size such as 10Gi", id="limit"),
        pytest.param('unconfined = "no"', "config.toml: unconfined: no: must be true or false", id="switch"),
        pytest.param("networks = 1", "config.toml: networks: unknown", id="unknown"),
        pytest.param("fit = true", "config.toml: fit: unknown", id="not the user's"),
        pytest.param("pids-limit = 0", "config.toml: pids-limit: 0: must be a number, 1 or more", id="too small"),
        pytest.param('env = ["NONE"]', "config.toml: env: NONE: is not set here", id="variable"),
        pytest.param('runs.max_size = "x"', "config.toml: runs: max_size: x: must be a size", id="size of runs"),
        pytest.param("mount = 1\nenv = 1", "mount: 1: must be", id="first of two"),
        pytest.param("mount = 1\nenv = 1", "env: must be a mapping", id="second of two"),
        pytest.param('mount = ["/none"]', "config.toml: mount: /none: no such file or directory", id="missing path"),
        pytest.param("[", "config.toml: ", id="not TOML"),
    ],
)
def test_bad_config(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption) as error:
        _read(tmp_path, text)
    assert message in str(error.value)
