"""Raises the limit of open files for large jobs: its default is often 1,024.

This happens after the sandbox has started, so that containers keep the user's limit.
"""

from __future__ import annotations

import resource
from collections.abc import Sequence
from typing import Final

from pumice.model.job import Manifest
from pumice.model.pod import all_containers
from pumice.model.problem import Option
from pumice.store.run_errors import Unsupported

# A pod has three namespaces; a container has two pipes and a log file or, in job-init, a process.
_POD: Final = 3
_CONTAINER: Final = 4
_OURS: Final = 96
# For connections through the proxy and to published ports, as far as the hard limit allows.
_CONNECTIONS: Final = 1024


def pods_and_containers(manifests: Sequence[Manifest]) -> tuple[int, int]:
    return len(manifests), sum(len(all_containers(manifest["spec"])) for manifest in manifests)


def needed_files(pods: int, containers: int) -> int:
    return _OURS + _POD * pods + _CONTAINER * containers


def check_open_files(pods: int, containers: int) -> None:
    """Raise Unsupported if the job would exceed the hard limit while it runs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = needed_files(pods, containers)
    if hard != resource.RLIM_INFINITY and needed > hard:
        hint = f"raise the hard limit (ulimit -n {needed}, as root), or run fewer pods with "
        message = f"{pods} pods need {needed} open files, and a process may have {hard} here"
        raise Unsupported(message, (hint, Option("scale")))


def raise_open_files_limit(pods: int, containers: int) -> None:
    """Raise the soft limit to what the job needs, at most to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = needed_files(pods, containers) + _CONNECTIONS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
