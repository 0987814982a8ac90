"""Loads the CustomResourceDefinitions that Pumice ships; `scripts/crds.py` builds them."""

from __future__ import annotations

from importlib.resources import files

import msgspec

from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.pumice_fields import served_schema
from pumice.model.job import Manifest


def custom_resources(*, volcano: bool) -> list[Manifest]:
    """Return the definitions of Job and Command; with `volcano`, also those of PodGroup and Queue."""
    crds = msgspec.json.decode(files("pumice").joinpath("data", "crds.json").read_bytes(), type=list[Manifest])
    return [crd for crd in crds if volcano or crd["metadata"]["name"] in (names.JOBS_CRD, names.COMMANDS_CRD)]


def job_schema() -> Manifest:
    jobs, _ = custom_resources(volcano=False)
    return dict(served_schema(jobs))
