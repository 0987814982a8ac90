"""Runs a stored run again: a new run of the same Job, with the same options, in the background."""

from __future__ import annotations

from msgspec.structs import replace

from pumice.admission.admit import admit
from pumice.client.local_client import LocalClient
from pumice.engines.local.preparation.new_record import options_of
from pumice.engines.local.run_errors import WrongState
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.runs.run_store import StoredRun
from pumice.runtime.offline_context import offline_context

# Metadata that an API server sets, or a run in its place.
SERVER_FIELDS = ("uid", "resourceVersion", "generation", "creationTimestamp")


def run_again(client: LocalClient, run: StoredRun) -> str:
    """Return the name of the new run. Raises RunError, such as RefusedError if values that it needs are not stored."""
    record = run.record
    if record.secrets:
        names = ", ".join(record.secrets)
        raise WrongState(f"{run.ref}: the values of {names} are not stored", f"pumice submit {record.file}")
    metadata = {name: value for name, value in record.job["metadata"].items() if name not in SERVER_FIELDS}
    admitted = admit({**record.job, "metadata": metadata}, offline_context())
    # The Job is stored as it was scaled.
    options = replace(options_of(record.options), scale={})
    return client.submit(RunRequest(admitted, options, record.documents, run.source))
