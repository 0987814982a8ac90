"""What a run is made of: the Job, the options, the documents that the Job uses, and where it was read from."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from pumice.admission.admit import Admitted
from pumice.engines.local.options import RunOptions
from pumice.engines.local.runs.job_source import JobSource
from pumice.engines.local.runs.run_store import OwnedRun
from pumice.model.job import Manifest

__all__ = ["JobSource", "OwnedRun", "RunRequest"]


class RunRequest(Struct, frozen=True):
    """`documents` are the ConfigMaps, Secrets and claims that the job uses."""

    job: Admitted
    options: RunOptions
    documents: Sequence[Manifest] = ()
    source: JobSource = field(default_factory=JobSource)
    owned: OwnedRun | None = None  # a stored run; without it, a new run is stored
    manifests: Sequence[Manifest] = ()  # of all pods, once they are known
