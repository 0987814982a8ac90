"""Runs a stored run again: a new run of the same Job, with the same options, in the background."""

from __future__ import annotations

from msgspec.structs import replace

from pumice.model.text import shown_words
from pumice.model.vocabulary import SERVER_FIELDS
from pumice.runtime.offline_context import restore_admitted
from pumice.store.files.run_store import StoredRun
from pumice.store.options import decode_options
from pumice.store.run_errors import WrongState
from pumice.store.run_request import RunRequest


def request_again(run: StoredRun) -> RunRequest:
    """Return the request of the same run. Raises WrongState if values that it needs are not stored."""
    record = run.record
    if run.is_opened:
        raise WrongState(f"{run.ref}: {run.elsewhere}, to be read only")
    if record.secrets:
        names = ", ".join(record.secrets)
        after = f" -- {shown_words(record.args)}" if record.args else ""
        raise WrongState(f"{run.ref}: the values of {names} are not stored", f"pumice submit {record.file}{after}")
    metadata = {name: value for name, value in record.job["metadata"].items() if name not in SERVER_FIELDS}
    admitted = restore_admitted({**record.job, "metadata": metadata}, record.version)
    # The Job is stored as it was scaled.
    options = replace(decode_options(record.options), scale={})
    return RunRequest(admitted, options, record.documents, run.source)
