"""The process of a detached run: runs a stored run to its end, reachable through its control socket."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from pumice.admission.admit import admit
from pumice.engines.local.clock import wall_clock
from pumice.engines.local.options import RunOptions
from pumice.engines.local.outcome import TERMINATED, Stop
from pumice.engines.local.preparation.new_record import options_of
from pumice.engines.local.run_errors import RunError
from pumice.engines.local.runs.journal import EntryKind
from pumice.engines.local.runs.owner_lock import OwnerLock
from pumice.engines.local.runs.run_record import DETACHED, QUEUED, SECRETS_MISSING
from pumice.engines.local.runs.run_store import OwnedRun, RunStore, StoredRun
from pumice.engines.local.service import queued_runs
from pumice.engines.local.session import LocalSession
from pumice.engines.local.supervisor.control_server import run_with_control
from pumice.engines.local.supervisor.secret_values import SecretsMissingError, drop_secrets, read_secrets, with_values
from pumice.model.pumice_error import PumiceError
from pumice.model.vocabulary import Phase
from pumice.runtime.key_pairs import make_key_pair
from pumice.runtime.offline_context import offline_context


def main(directory: Path, descriptor: int) -> NoReturn:
    """Run the run of this directory, whose owner lock the caller has passed on."""
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
        code = asyncio.run(_run(session_of(OwnedRun(run, lock))))
    except SecretsMissingError as error:
        _wait_for_secrets(run, error)
        code = 1
    except PumiceError as error:
        _fail(store, run, str(error) if isinstance(error, RunError) else error.problem.text)
        code = 1
    except Exception:
        _fail(store, run, "the run could not be started: see supervisor.log")
        traceback.print_exc()
        raise
    if run.status().finished is not None:
        drop_secrets(run.record.uid)
    # Without freeing each object, which Python would do. The lock of the run ends with the process.
    os._exit(code)


def session_of(owned: OwnedRun) -> LocalSession:
    """Return the session of a stored run. Raises SecretsMissingError and RunError."""
    record = owned.run.record
    values = read_secrets(record)
    documents = with_values(record.documents, values.documents)
    options = options_of(record.options, values.env)
    _load_modules(record.job, options)
    session = LocalSession(admit(record.job, offline_context()), options, documents, owned.run.source, owned)
    if record.mode == DETACHED:
        session.on_sandbox_lost = _give_up
    return session


def _load_modules(job: Mapping[str, Any], options: RunOptions) -> None:
    """Load what is otherwise loaded late: an upgrade of Pumice under a running process must not mix two versions."""
    if options.pull:
        import pumice.engines.local.registry.pull  # noqa: F401, PLC0415 - loads aiohttp, which takes long
    if "ssh" in ((job.get("spec") or {}).get("plugins") or {}):
        make_key_pair("ed25519")


def _give_up(reason: str) -> None:
    """End at once, as if this process had been killed: the service recovers the run, and no retry is spent."""
    sys.stderr.write(f"{reason}\n")
    sys.stderr.flush()
    os._exit(1)


async def _run(session: LocalSession) -> int:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: session.stop(Stop(TERMINATED, "Terminated")))
    outcome = await run_with_control(session, lambda _event: None)
    return outcome.exit_code


def _wait_for_secrets(run: StoredRun, error: SecretsMissingError) -> None:
    """Record that a run waits for values that are not stored. It holds no room meanwhile."""
    message = error.problem.message
    note = f"{message}; {error.problem.hint}"
    changes = {"phase": QUEUED, "reason": SECRETS_MISSING, "message": message, "note": note}
    queued_runs.append(run, EntryKind.SECRETS_GONE, {"message": note}, **changes, started=None, gpus=())


def _fail(store: RunStore, run: StoredRun, message: str) -> None:
    """Record that a run could not start, or ended by an error of its process."""
    lines = tuple(message.splitlines())
    about = {"reason": "NotStarted", "message": message}
    ended = {"phase": Phase.FAILED, "finished": wall_clock(), "exit_code": 1, "note": lines[0], "verdict": lines}
    queued_runs.append(run, EntryKind.NOT_STARTED, about, **about, **ended)
    store.finish(run)
