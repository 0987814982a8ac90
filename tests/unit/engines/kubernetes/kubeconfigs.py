"""Kubeconfig files for the tests, made of parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SERVER = "https://10.0.0.1:6443"


def config(
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    *,
    name: str = "here",
    namespace: str | None = None,
) -> dict[str, Any]:
    """One context with its cluster and its user, all of one name."""
    context = {"cluster": name, "user": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": SERVER} if cluster is None else cluster}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": context}],
    }


def write(path: Path, content: dict[str, Any] | str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def plugin(**more: Any) -> dict[str, Any]:
    return {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "plugin", "interactiveMode": "Never"}
        | more
    }
