"""Runs the process of a run: `python -m pumice.engines.local.supervisor DIRECTORY LOCK`, or `--leased SOCKET`.

The service starts it with LOCK, the descriptor of the run's owner lock, which it hands over; a client with SOCKET, the
descriptor of a connection, on which it sends what to run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pumice.runtime.process_life import leave, loading

with loading():
    from pumice.engines.local.supervisor.supervisor_process import LEASED

    if sys.argv[1] == LEASED:
        from pumice.engines.local.supervisor import leased_process
    else:
        from pumice.engines.local.supervisor import process

if sys.argv[1] == LEASED:
    leave(leased_process.main(int(sys.argv[2])))
leave(process.main(Path(sys.argv[1]), int(sys.argv[2])))
