"""Runs the service: `python -I -m pumice.engines.local.service STATE [READY]`.

With READY, the descriptor of a pipe that is told when it is ready, it goes to the background.
"""

from __future__ import annotations

import gc
import os
import sys

from pumice.engines.local.daemon.background import detach

if __name__ == "__main__":
    in_background = len(sys.argv) > 2  # noqa: PLR2004 - STATE and READY
    if in_background:
        # Before any thread starts.
        detach()
    # Modules stay: looking for garbage while they load would take a tenth of the time.
    gc.disable()
    from pumice.engines.local.service.service_process import main

    gc.enable()
    main(sys.argv[1], int(sys.argv[2]) if in_background else os.open(os.devnull, os.O_WRONLY))
