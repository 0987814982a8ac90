"""Where commands go that name no context."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.client.run_options.default_context import default_context
from pumice.store.run_errors import InvalidOption


@pytest.mark.parametrize(
    ("content", "environ", "context"),
    [
        pytest.param(None, {}, "", id="nothing"),
        pytest.param('on = "prod"\n', {}, "prod", id="file"),
        pytest.param('"on"="prod"\n', {}, "prod", id="quoted key"),
        pytest.param('on = "prod"\n', {"PUMICE_ON": "local"}, "local", id="the environment wins"),
        pytest.param("[runs]\nkeep_days = 3\n", {}, "", id="file without it"),
        pytest.param("broken = [\n", {}, "", id="a broken file that does not name it"),
    ],
)
def test_the_context(tmp_path: Path, content: str | None, environ: dict[str, str], context: str) -> None:
    if content is not None:
        (tmp_path / "pumice").mkdir()
        (tmp_path / "pumice" / "config.toml").write_text(content)
    assert default_context({"XDG_CONFIG_HOME": str(tmp_path), **environ}) == context


def test_it_must_be_a_name(tmp_path: Path) -> None:
    (tmp_path / "pumice").mkdir()
    (tmp_path / "pumice" / "config.toml").write_text("on = 3\n")
    with pytest.raises(InvalidOption, match="must be the name of a context"):
        default_context({"XDG_CONFIG_HOME": str(tmp_path)})
