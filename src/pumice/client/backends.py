"""Where runs are: chooses the backend. The only module of commands, page and Python API that knows backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from pumice.client.backend import Backend
from pumice.client.values import Context
from pumice.model import keys
from pumice.store.never_shared import is_never_shared
from pumice.store.run_errors import Unsupported

if TYPE_CHECKING:
    from pumice.admission.program_arguments import ImageCommand
    from pumice.client.local.local_backend import LocalBackend
    from pumice.model.job import Job
    from pumice.store.settings import ConsentError, FetchedCode, Settings

    ThisMachine: TypeAlias = LocalBackend


LOCAL: Final = "local"  # the context that is this machine


def open_backend(
    on: str = "",
    namespace: str = "",
    state: str | None = None,
    kubeconfig: str = "",
    all_namespaces: bool = False,  # noqa: FBT001, FBT002 - the arguments of `Backend.address`
) -> Backend:
    """Return the backend of this machine, or of the cluster that a context of the kubeconfig names.

    `state` replaces $XDG_STATE_HOME. Nothing is contacted. Raises InvalidOption for a context that does not exist.
    """
    if on not in ("", LOCAL):
        from pumice.client.cluster.cluster_backend import cluster_backend  # noqa: PLC0415 - only if runs are there

        return cluster_backend(on, namespace, kubeconfig, everywhere=all_namespaces)
    from pumice.client.local.local_backend import local_backend  # noqa: PLC0415 - only if runs are here

    return local_backend(namespace, state)


async def contexts(kubeconfig: str = "", default: str = "") -> list[Context]:
    """Return this machine and the contexts of the kubeconfig; `default` is where commands go without `--on`.

    Each is asked at the same time, for two seconds at most. Raises InvalidOption for a kubeconfig that cannot be read.
    """
    from pumice.client.cluster.reads.contexts import cluster_contexts  # noqa: PLC0415 - only for this list

    is_default = default in ("", LOCAL)
    return [Context(name=LOCAL, is_default=is_default), *await cluster_contexts(kubeconfig, default)]


def context_names(kubeconfig: str = "") -> list[str]:
    """Return this machine and the contexts of the kubeconfig, for completion. Nothing is contacted."""
    from pumice.client.cluster.reads import names  # noqa: PLC0415 - only for completion

    return [LOCAL, *names.context_names(kubeconfig)]


def names_on_cluster(what: str, on: str, namespace: str, kubeconfig: str, *, everywhere: bool = False) -> list[str]:
    """Return the names of `jobs` or `namespaces`, for completion: none unless the cluster answers at once."""
    from pumice.client.cluster.reads import names  # noqa: PLC0415 - only for completion

    return names.names_on_cluster(what, on, namespace, kubeconfig, everywhere=everywhere)


def fetch_code(job: Job) -> FetchedCode | None:
    """Write the code of a Job that `get -o yaml` printed from a cluster into a new directory; None for other Jobs.

    Raises RunError.
    """
    if keys.CODE_FROM not in job.metadata.annotations:
        return None
    from pumice.client.cluster.submission import code_secrets  # noqa: PLC0415 - only for such a Job

    return code_secrets.fetch_code(job)


def require_local(backend: Backend, what: str) -> ThisMachine:
    """Return the backend with what only that of this machine has. Raises Unsupported for another one."""
    from pumice.client.local.local_backend import LocalBackend  # noqa: PLC0415 - as above

    if isinstance(backend, LocalBackend):
        return backend
    raise Unsupported(f"{backend.name}: {what} is only for runs on this machine")


async def delete_submitted(backend: Backend, archives: Path) -> None:
    """Delete the Jobs that were submitted through a backend of a cluster; keep the archive of each in a directory."""
    from pumice.client.cluster.cluster_backend import ClusterBackend  # noqa: PLC0415 - as above

    if isinstance(backend, ClusterBackend):
        await backend.delete_submitted(archives)


def default_settings(environ: Mapping[str, str], plugins: Sequence[str], project: Path | None, python: str) -> Settings:
    """Return the settings of a run without any option, with the Python that suits the job. Raises InvalidOption."""
    from pumice.engines.local.preparation import default_settings as local  # noqa: PLC0415 - as above

    return local.default_settings(environ, plugins, project, python)


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return where Pumice keeps what it knows of runs. Raises InvalidOption."""
    from pumice.store.files.state_directory import state_directory as found  # noqa: PLC0415 - as above

    return found(environ)


def image_commands(settings: Settings) -> Callable[[str], ImageCommand | None]:
    """Return a function that knows what an image runs by itself, if the place of the runs has the image."""
    from pumice.client.local import image_commands as local  # noqa: PLC0415 - as above

    return local.image_commands(settings)


def may_share(directory: Path, environ: Mapping[str, str]) -> bool:
    """Return whether pods may see a directory as a whole without consent: it has no home, nor credentials."""
    from pumice.engines.local.host_access import consent  # noqa: PLC0415 - as above

    return not is_never_shared(directory) and consent.is_ordinary(directory, environ)


def remember_consent(error: ConsentError, settings: Settings) -> None:
    """Remember that jobs of this directory may use what the error names. Raises RunError if it cannot be remembered."""
    from pumice.engines.local.host_access import consent  # noqa: PLC0415 - as above

    consent.remember_consent(error, settings)
