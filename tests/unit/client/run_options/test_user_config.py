"""The user's own config.toml: consent that no project can give itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.client.run_options.user_config import UserConfig, read_user_config
from pumice.engines.local.run_errors import InvalidOption
from pumice.engines.local.state.settings import ExtraMount


def _read(tmp_path: Path, text: str) -> UserConfig:
    (tmp_path / "pumice").mkdir()
    (tmp_path / "pumice" / "config.toml").write_text(text)
    return read_user_config({"XDG_CONFIG_HOME": str(tmp_path)})


def test_good_config(tmp_path: Path) -> None:
    text = f'pids-limit = 9\nmount = ["{tmp_path}:/data:ro"]\nallow-host-path = ["/srv/x"]\n'
    text += 'env = ["A=b"]\nnetwork = "job"\nunconfined = true\nworkdir-read-only = false\n'
    config = _read(tmp_path, text)
    assert (config.limits, config.switches) == ({"pids-limit": "9"}, frozenset({"unconfined"}))
    assert config.mounts == (ExtraMount(tmp_path, read_only=True, at=Path("/data")),)
    assert (config.allowed, config.env, config.network, config.isolation) == ((Path("/srv/x"),), {"A": "b"}, "job", "")


def test_no_config(tmp_path: Path) -> None:
    assert read_user_config({"HOME": str(tmp_path)}) == UserConfig()
    assert read_user_config({"XDG_CONFIG_HOME": "relative", "HOME": str(tmp_path)}) == UserConfig()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("mount = 1", "config.toml: mount: must be a list of texts, found ", id="kind"),
        pytest.param("env = [1]", "config.toml: env: must be a list of texts", id="kind in a list"),
        pytest.param('network = "x"', "config.toml: network: x: must be one of job, outbound", id="choice"),
        pytest.param("disk-limit = true", "config.toml: disk-limit: must be a number or a text", id="limit"),
        pytest.param('unconfined = "no"', "config.toml: unconfined: must be true or false, found ", id="switch"),
        pytest.param("networks = 1", "config.toml: networks: unknown", id="unknown"),
        pytest.param('mount = ["/none"]', "/none: no such file or directory", id="missing path"),
        pytest.param("[", "config.toml: ", id="not TOML"),
    ],
)
def test_bad_config(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption) as error:
        _read(tmp_path, text)
    assert message in str(error.value)
