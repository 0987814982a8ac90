"""Run a command with a Python active that has a framework: `python -m scripts.with_framework torch COMMAND...`.

Without a command it prints that Python.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.fetching import FetchError, fetch, say
from scripts.frameworks import FRAMEWORKS, environment, find

PROJECT = Path(__file__).resolve().parent.parent
FAILED, INTERRUPTED = 1, 130


def main(words: Sequence[str]) -> int:
    framework, command = FRAMEWORKS[words[0]], words[1:]
    try:
        chosen = find(framework, os.environ, PROJECT) or fetch(framework, os.environ, PROJECT)
    except FetchError as error:
        say(framework, str(error))
        ways = ["any Python that has it will do: make PYTHON=/path/to/python3, or activate its environment"]
        print("hint:", *ways, *filter(None, [framework.hint]), sep="\n      ", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        say(framework, "interrupted; the next make continues from here")
        return INTERRUPTED
    if not command:
        print(chosen.python)
        return 0
    # Ctrl-C is for the command, which ends its pods first. SIG_IGN would be handed down to it, a handler is not.
    signal.signal(signal.SIGINT, lambda *_: None)
    return subprocess.call(command, env=environment(chosen, os.environ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
