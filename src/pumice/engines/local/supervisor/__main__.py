"""The process of a detached run that the service starts: `python -m pumice.engines.local.supervisor DIRECTORY LOCK`.

LOCK is the descriptor of the run's owner lock, which the service hands over.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pumice.engines.local.supervisor.process import main

main(Path(sys.argv[1]), int(sys.argv[2]))
