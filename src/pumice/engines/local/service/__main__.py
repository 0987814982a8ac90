"""Runs the service: `python -I -m pumice.engines.local.service STATE [READY]`.

With READY, the descriptor of a pipe that is told when it is ready, it goes to the background.
"""

from __future__ import annotations

import os
import sys

from pumice.engines.local.daemon.background import detach
from pumice.runtime.process_life import leave, loading

if __name__ == "__main__":
    in_background = len(sys.argv) > 2  # noqa: PLR2004 - STATE and READY
    if in_background:
        # Before any thread starts.
        detach()
    with loading():
        from pumice.engines.local.service.service_process import main
    main(sys.argv[1], int(sys.argv[2]) if in_background else os.open(os.devnull, os.O_WRONLY))
    leave(0)
