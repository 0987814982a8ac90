"""Where the scripts keep what all checkouts share: frameworks, Kubernetes programs, results of mypy and Hypothesis."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_directory(name: str, environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pumice" / name
