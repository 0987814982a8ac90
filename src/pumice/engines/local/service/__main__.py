"""Runs the service in the background: `python -I -m pumice.engines.local.service STATE READY`."""

from __future__ import annotations

import sys

from pumice.engines.local.daemon.background import detach

if __name__ == "__main__":
    # Before any thread starts.
    detach()
    from pumice.engines.local.service.service_process import main

    main(sys.argv[1], int(sys.argv[2]))
