"""The process of a detached run: runs a stored run to its end, reachable through its control socket."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from pathlib import Path

import msgspec

from pumice.admission.admit import admit
from pumice.engines.local.clock import elapsed, wall_clock
from pumice.engines.local.outcome import TERMINATED, Stop
from pumice.engines.local.run_errors import RunError
from pumice.engines.local.runs.atomic_files import replace_file
from pumice.engines.local.runs.job_source import JobSource
from pumice.engines.local.runs.journal import Journal, SequenceNumbers
from pumice.engines.local.runs.new_record import options_of
from pumice.engines.local.runs.owner_lock import OwnerLock
from pumice.engines.local.runs.run_store import STATUS, OwnedRun, RunStore, StoredRun
from pumice.engines.local.session import LocalSession
from pumice.engines.local.supervisor.control_server import run_with_control
from pumice.engines.local.supervisor.secret_values import drop_secrets, read_secrets, with_values
from pumice.model.problem import PumiceError
from pumice.model.vocabulary import Phase
from pumice.runtime.offline_context import offline_context

SECRETS_MISSING = "SecretsMissing"


def main(directory: Path, descriptor: int) -> None:
    """Run the run of this directory, whose owner lock the caller has passed on."""
    os.umask(0o077)
    os.set_inheritable(descriptor, False)
    store = RunStore(directory.parents[3])
    run, lock = store.load(directory), OwnerLock(descriptor)
    if run is None:
        sys.exit(f"{directory}: there is no run")
    lock.sign()
    try:
        code = asyncio.run(_run(session_of(OwnedRun(run, lock))))
    except PumiceError as error:
        _fail(store, run, str(error) if isinstance(error, RunError) else error.problem.text)
        code = 1
    except Exception:
        _fail(store, run, "the run could not be started: see supervisor.log")
        traceback.print_exc()
        raise
    if run.status().finished is not None:
        drop_secrets(run.record.uid)
    sys.exit(code)


def session_of(owned: OwnedRun) -> LocalSession:
    """Return the session of a stored run. Raises RunError if values that are not stored are gone."""
    record = owned.run.record
    values = read_secrets(record.uid)
    if record.secrets and values is None:
        names = ", ".join(record.secrets)
        hint = f"pumice submit {record.file} starts it again"
        raise RunError(f"{SECRETS_MISSING}: the values of {names} are not stored, and gone", hint)
    documents = with_values(record.documents, values.documents if values is not None else ())
    options = options_of(record.options, values.env if values is not None else {})
    source = JobSource.of(record.file, record.marks)
    return LocalSession(admit(record.job, offline_context()), options, documents, source, owned)


async def _run(session: LocalSession) -> int:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: session.stop(Stop(TERMINATED, "Terminated")))
    outcome = await run_with_control(session, lambda _event: None)
    return outcome.exit_code


def _fail(store: RunStore, run: StoredRun, message: str) -> None:
    """Record that a run could not start, or ended by an error of its process."""
    journal = Journal(run.directory, SequenceNumbers(), wall_clock, elapsed)
    journal.open()
    reason = SECRETS_MISSING if message.startswith(SECRETS_MISSING) else "NotStarted"
    entry = journal.append("Failed", {"reason": reason, "message": message}, sync=True)
    journal.close()
    lines = tuple(message.splitlines())
    status = msgspec.structs.replace(
        run.status(),
        seq=entry.seq,
        phase=Phase.FAILED,
        reason=reason,
        message=message,
        note=lines[0],
        verdict=lines,
        finished=wall_clock(),
        exit_code=1,
    )
    replace_file(run.directory / STATUS, msgspec.json.encode(status) + b"\n")
    store.finish(run)
