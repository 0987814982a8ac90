"""Prints the flags that `make run` needs: root must say that pods may be plain processes where there are no namespaces.

The examples are part of this repository, so `make` says it.
"""

from __future__ import annotations

import sys

from pumice.engines.local.isolation import is_root
from pumice.engines.local.sandbox.diagnosis.kernel_support import check_kernel


def isolation_flags() -> list[str]:
    return ["--isolation", "process"] if is_root() and check_kernel().missing else []


if __name__ == "__main__":
    print(*isolation_flags())
    sys.exit(0)
