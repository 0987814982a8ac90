"""Pumice: Volcano Jobs, light enough to run anywhere.

What a program or a plugin of yours may rely on is exported here; everything else may move. Names are looked up when
they are first used, so that `import pumice` costs nothing.
"""

from __future__ import annotations

# As in the typing module, which is not loaded for it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pumice.admission.admit import Admitted as Admitted
    from pumice.admission.admit import admit as admit
    from pumice.admission.context import Context as Context
    from pumice.model.findings import Finding as Finding
    from pumice.model.findings import Path as Path
    from pumice.model.job import Job as Job
    from pumice.model.pod import Pod as Pod
    from pumice.model.pod import env_values as env_values
    from pumice.model.slot import Slot as Slot
    from pumice.plugins.base import Base as Base
    from pumice.plugins.base import option as option
    from pumice.runtime.discovery import discover as discover

_HOMES = {
    "Admitted": "pumice.admission.admit",
    "Base": "pumice.plugins.base",
    "Context": "pumice.admission.context",
    "Finding": "pumice.model.findings",
    "Job": "pumice.model.job",
    "Path": "pumice.model.findings",
    "Pod": "pumice.model.pod",
    "Slot": "pumice.model.slot",
    "admit": "pumice.admission.admit",
    "discover": "pumice.runtime.discovery",
    "env_values": "pumice.model.pod",
    "option": "pumice.plugins.base",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'pumice' has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - see above: most who import the package never get here

    return getattr(importlib.import_module(_HOMES[name]), name)
