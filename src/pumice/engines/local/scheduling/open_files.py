"""Room for the descriptors of a large job: many systems let a process have 1,024 of them, and more on request.

It is asked for after the sandbox has been started: what is started before has the limit that the user gave it.
"""

from __future__ import annotations

import resource
from typing import Final

from pumice.engines.local.preflight import RefusedError

# Each pod has three namespaces, each container two pipes and a log file or, seen from job-init, a process.
_POD: Final = 3
_CONTAINER: Final = 4
_OURS: Final = 96
# For connections through the proxy and to published ports, where the hard limit has room for them.
_CONNECTIONS: Final = 1024


def needed_files(pods: int, containers: int) -> int:
    return _OURS + _POD * pods + _CONTAINER * containers


def check_open_files(pods: int, containers: int) -> None:
    """What the hard limit does not allow would end a running job."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = needed_files(pods, containers)
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise RefusedError(
            f"{pods} pods need {needed} open files, and a process may have {hard} here\n"
            f"  hint: raise the hard limit (ulimit -n {needed}, as root), or run fewer pods with --scale"
        )


def raise_open_files_limit(pods: int, containers: int) -> None:
    """Raise the soft limit as far as the job needs it; the hard one stays."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed_files(pods, containers) + _CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
