"""Where commands go that name no context: $PUMICE_ON, else `on =` in the user's config.toml."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from pumice.store.settings import config_directory

# Most files have no such line, and need not be parsed: that takes longer than the rest of a command.
_LINE: Final = re.compile(rb"^\s*[\"']?on[\"']?\s*=", re.MULTILINE)


def default_context(environ: Mapping[str, str]) -> str:
    """Return the context; empty if nothing names one. Raises InvalidOption for a config.toml with mistakes."""
    if named := environ.get("PUMICE_ON"):
        return named
    directory = config_directory(environ)
    if directory is None:
        return ""
    try:
        with open(os.path.join(directory, "config.toml"), "rb") as file:  # noqa: PTH118, PTH123 - loads nothing
            if _LINE.search(file.read()) is None:
                return ""
    except OSError:
        # Commands that need more of it say what is wrong.
        return ""
    from pumice.client.run_options.toml_files import read_user_config  # noqa: PLC0415 - only for such a file

    return read_user_config(environ).on
