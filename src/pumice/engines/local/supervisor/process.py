"""The process of a detached run: runs a stored run to its end, reachable through its control socket."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pumice.diagnosis.outcome import StopReason
from pumice.engines.local.local_run import LocalRun
from pumice.engines.local.runs import append
from pumice.engines.local.supervisor.control_server import give_up, run_with_control
from pumice.engines.local.supervisor.secret_values import SecretsMissingError, drop_secrets, read_secrets, with_values
from pumice.model.problem import FLAGS
from pumice.model.pumice_error import PumiceError
from pumice.runtime.key_pairs import make_key_pair
from pumice.runtime.offline_context import restore_admitted
from pumice.store.files.owner_lock import OwnerLock
from pumice.store.files.run_store import OwnedRun, RunStore, StoredRun
from pumice.store.history.entries import NotStarted, SecretsMissing
from pumice.store.options import RunOptions, decode_options
from pumice.store.run_end import TERMINATED, Stop
from pumice.store.run_errors import RunError
from pumice.store.run_record import DETACHED
from pumice.store.run_request import RunRequest


def main(directory: Path, descriptor: int) -> int:
    """Run the run of this directory, whose owner lock the caller has passed on; return the exit code."""
    os.umask(0o077)
    # A client may send it as soon as the lock is signed.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.set_inheritable(descriptor, False)
    store = RunStore(directory.parents[3])
    run, lock = store.load(directory), OwnerLock(descriptor)
    if run is None:
        sys.exit(f"{directory}: there is no run")
    lock.sign()
    try:
        code = asyncio.run(_run(stored_run(OwnedRun(run, lock))))
    except SecretsMissingError as error:
        # It holds no room while it waits for values that are not stored.
        append(run, SecretsMissing(error.problem.message, error.problem.hint))
        code = 1
    except PumiceError as error:
        _fail(store, run, error.text(FLAGS) if isinstance(error, RunError) else error.problem.spelled(FLAGS).text)
        code = 1
    except Exception:
        _fail(store, run, "the run could not be started: see supervisor.log")
        traceback.print_exc()
        raise
    if run.status().finished is not None:
        drop_secrets(run.record.uid)
    # The lock of the run ends with the process.
    return code


def stored_run(owned: OwnedRun) -> LocalRun:
    """Return a stored run, to be run. Raises SecretsMissingError and RunError."""
    record = owned.run.record
    values = read_secrets(record)
    documents = with_values(record.documents, values.documents)
    options = decode_options(record.options, values.env)
    _load_modules(record.job, options)
    admitted = restore_admitted(record.job, record.version)
    request = RunRequest(admitted, options, documents, owned.run.source)
    return LocalRun(request, give_up if record.mode == DETACHED else None, owned=owned)


def _load_modules(job: Mapping[str, Any], options: RunOptions) -> None:
    """Load what is otherwise loaded late: an upgrade of Pumice under a running process must not mix two versions."""
    import pumice.engines.local.plain_processes.process_sandbox  # noqa: PLC0415 - see above
    import pumice.store.code.recording  # noqa: PLC0415 - see above

    if options.pull:
        import pumice.engines.local.registry.pull  # noqa: F401, PLC0415 - loads aiohttp, which takes long
    if "ssh" in ((job.get("spec") or {}).get("plugins") or {}):
        make_key_pair("ed25519")


async def _run(run: LocalRun) -> int:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: run.stop(Stop(TERMINATED, StopReason.TERMINATED)))
    outcome = await run_with_control(run, lambda _event: None)
    return outcome.exit_code


def _fail(store: RunStore, run: StoredRun, message: str) -> None:
    """Record that a run could not start, or ended by an error of its process."""
    append(run, NotStarted("NotStarted", message))
    store.finish(run)
