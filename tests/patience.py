"""How long a test waits for what must happen. Only a test that fails waits so long.

It is far more than the same work takes on two cores that other tests keep busy.
"""

from __future__ import annotations

from typing import Final

PATIENCE: Final = 180  # seconds
# A run that hangs ends before its test gives up, and its verdict says what its pods do.
RUN_TIMEOUT: Final = "--timeout=150s"
