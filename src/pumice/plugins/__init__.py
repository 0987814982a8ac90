"""The built-in plugins as classes, whose fields are typed arguments: `PyTorch(master="worker", worker="worker")`."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `pumice`
if TYPE_CHECKING:
    from typing import Any

    from pumice.plugins.base import Base as Base
    from pumice.plugins.base import option as option
    from pumice.plugins.env import Env as Env
    from pumice.plugins.hcclrank import HcclRank as HcclRank
    from pumice.plugins.mpi import Mpi as Mpi
    from pumice.plugins.pytorch import PyTorch as PyTorch
    from pumice.plugins.ray import Ray as Ray
    from pumice.plugins.ssh import Ssh as Ssh
    from pumice.plugins.svc import Svc as Svc
    from pumice.plugins.tensorflow import TensorFlow as TensorFlow

_HOMES = {
    "Base": "pumice.plugins.base",
    "Env": "pumice.plugins.env",
    "HcclRank": "pumice.plugins.hcclrank",
    "Mpi": "pumice.plugins.mpi",
    "PyTorch": "pumice.plugins.pytorch",
    "Ray": "pumice.plugins.ray",
    "Ssh": "pumice.plugins.ssh",
    "Svc": "pumice.plugins.svc",
    "TensorFlow": "pumice.plugins.tensorflow",
    "option": "pumice.plugins.base",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pumice.plugins' has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - only when a name is used

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
