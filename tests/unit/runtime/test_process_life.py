"""How programs load their modules, and how they end."""

from __future__ import annotations

import gc
import subprocess
import sys

from pumice.runtime.process_life import loading

PROGRAM = """
import atexit, sys
from pumice.runtime.process_life import leave
class Kept:
    def __del__(self):
        print("freed")
kept = Kept()
atexit.register(print, "an exit handler")
print("printed")
leave(3)
"""


def test_garbage_is_collected_again_after_loading() -> None:
    with loading():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_a_program_ends_with_its_code_output_and_exit_handlers_and_frees_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (3, "printed\nan exit handler\n", "")
