"""Runs the process of a run: `python -m pumice.engines.local.supervisor DIRECTORY LOCK`, or `--leased SOCKET`.

The service starts it with LOCK, the descriptor of the run's owner lock, which it hands over; a client with SOCKET, the
descriptor of a connection, on which it sends what to run.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

# Modules stay: looking for garbage while they load would take a tenth of the time.
gc.disable()
from pumice.engines.local.supervisor.supervisor_process import LEASED  # noqa: E402 - see above

if sys.argv[1] == LEASED:
    from pumice.engines.local.supervisor import leased_process

    gc.enable()
    leased_process.main(int(sys.argv[2]))
else:
    from pumice.engines.local.supervisor import process

    gc.enable()
    process.main(Path(sys.argv[1]), int(sys.argv[2]))
