"""What a run is made of: the Job, the options, the documents that the Job uses, and where it was read from."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from pumice.admission.admit import Admitted
from pumice.model.job import Manifest
from pumice.store.job_source import JobSource
from pumice.store.options import RunOptions

__all__ = ["JobSource", "RunRequest"]


class RunRequest(Struct, frozen=True):
    """`documents` are the ConfigMaps, Secrets and claims that the job uses."""

    job: Admitted
    options: RunOptions
    documents: Sequence[Manifest] = ()
    source: JobSource = field(default_factory=JobSource)
