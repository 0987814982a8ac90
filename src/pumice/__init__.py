"""Pumice: Volcano Jobs, light enough to run anywhere.

    import pumice

    run = pumice.submit(pumice.load("job.yaml"))
    print(run.wait().verdict)

The names exported here are the public API; everything else may change. A name is imported when it is first used, so
that `import pumice` is fast.
"""

from __future__ import annotations

# Type checkers know this name as that of the typing module, which takes long to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pumice import plugins as plugins
    from pumice.admission.admit import Admitted as Admitted
    from pumice.admission.admit import admit as admit
    from pumice.admission.context import Context as Context
    from pumice.client.async_client import AsyncClient as AsyncClient
    from pumice.client.async_run import AsyncOwnedRun as AsyncOwnedRun
    from pumice.client.async_run import AsyncRun as AsyncRun
    from pumice.client.builders import job as job
    from pumice.client.builders import task as task
    from pumice.client.loading import load as load
    from pumice.client.loading import load_all as load_all
    from pumice.client.sync_client import Client as Client
    from pumice.client.sync_client import OwnedRun as OwnedRun
    from pumice.client.sync_client import Run as Run
    from pumice.client.sync_client import connect as connect
    from pumice.client.sync_client import get as get
    from pumice.client.sync_client import run as run
    from pumice.client.sync_client import runs as runs
    from pumice.client.sync_client import start as start
    from pumice.client.sync_client import submit as submit
    from pumice.client.values import Attempt as Attempt
    from pumice.client.values import Event as Event
    from pumice.client.values import LogLine as LogLine
    from pumice.client.values import PodStatus as PodStatus
    from pumice.client.values import Result as Result
    from pumice.client.values import RunFailed as RunFailed
    from pumice.client.values import Status as Status
    from pumice.diagnosis.outcome import Outcome as Outcome
    from pumice.diagnosis.verdict import Verdict as Verdict
    from pumice.diagnosis.why import Shortage as Shortage
    from pumice.diagnosis.why import Why as Why
    from pumice.model.findings import Finding as Finding
    from pumice.model.findings import InvalidJob as InvalidJob
    from pumice.model.findings import Path as Path
    from pumice.model.job import Job as Job
    from pumice.model.job import Policy as Policy
    from pumice.model.job import TaskSpec as TaskSpec
    from pumice.model.pod import Pod as Pod
    from pumice.model.pod import env_values as env_values
    from pumice.model.pumice_error import PumiceError as PumiceError
    from pumice.model.slot import Slot as Slot
    from pumice.model.vocabulary import Phase as Phase
    from pumice.plugins.base import Base as Base
    from pumice.plugins.base import option as option
    from pumice.runtime.discovery import discover as discover
    from pumice.store.run_errors import ConnectionFailed as ConnectionFailed
    from pumice.store.run_errors import Denied as Denied
    from pumice.store.run_errors import DoesNotFit as DoesNotFit
    from pumice.store.run_errors import InvalidOption as InvalidOption
    from pumice.store.run_errors import NoSuchPod as NoSuchPod
    from pumice.store.run_errors import NoSuchRun as NoSuchRun
    from pumice.store.run_errors import StoreError as StoreError
    from pumice.store.run_errors import Unsupported as Unsupported
    from pumice.store.run_errors import VersionMismatch as VersionMismatch
    from pumice.store.run_errors import WaitTimeout as WaitTimeout
    from pumice.store.run_errors import WrongState as WrongState

_HOMES = {
    "Admitted": "pumice.admission.admit",
    "AsyncClient": "pumice.client.async_client",
    "AsyncOwnedRun": "pumice.client.async_run",
    "AsyncRun": "pumice.client.async_run",
    "Attempt": "pumice.client.values",
    "Base": "pumice.plugins.base",
    "Client": "pumice.client.sync_client",
    "ConnectionFailed": "pumice.store.run_errors",
    "Context": "pumice.admission.context",
    "Denied": "pumice.store.run_errors",
    "DoesNotFit": "pumice.store.run_errors",
    "Event": "pumice.client.values",
    "Finding": "pumice.model.findings",
    "InvalidJob": "pumice.model.findings",
    "InvalidOption": "pumice.store.run_errors",
    "Job": "pumice.model.job",
    "LogLine": "pumice.client.values",
    "NoSuchPod": "pumice.store.run_errors",
    "NoSuchRun": "pumice.store.run_errors",
    "Outcome": "pumice.diagnosis.outcome",
    "OwnedRun": "pumice.client.sync_client",
    "Path": "pumice.model.findings",
    "Phase": "pumice.model.vocabulary",
    "Pod": "pumice.model.pod",
    "PodStatus": "pumice.client.values",
    "Policy": "pumice.model.job",
    "PumiceError": "pumice.model.pumice_error",
    "Result": "pumice.client.values",
    "Run": "pumice.client.sync_client",
    "RunFailed": "pumice.client.values",
    "Shortage": "pumice.diagnosis.why",
    "Slot": "pumice.model.slot",
    "Status": "pumice.client.values",
    "StoreError": "pumice.store.run_errors",
    "TaskSpec": "pumice.model.job",
    "Unsupported": "pumice.store.run_errors",
    "Verdict": "pumice.diagnosis.verdict",
    "VersionMismatch": "pumice.store.run_errors",
    "WaitTimeout": "pumice.store.run_errors",
    "Why": "pumice.diagnosis.why",
    "WrongState": "pumice.store.run_errors",
    "admit": "pumice.admission.admit",
    "connect": "pumice.client.sync_client",
    "discover": "pumice.runtime.discovery",
    "env_values": "pumice.model.pod",
    "get": "pumice.client.sync_client",
    "job": "pumice.client.builders",
    "load": "pumice.client.loading",
    "load_all": "pumice.client.loading",
    "option": "pumice.plugins.base",
    "run": "pumice.client.sync_client",
    "runs": "pumice.client.sync_client",
    "start": "pumice.client.sync_client",
    "submit": "pumice.client.sync_client",
    "task": "pumice.client.builders",
}

__all__ = list(_HOMES)
# `pumice.plugins.PyTorch` needs no import of its own. (`pumice.testing` does: it needs pytest.)
_PLUGINS = "plugins"


def __getattr__(name: str) -> Any:
    if name not in _HOMES and name != _PLUGINS:
        raise AttributeError(f"module 'pumice' has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - only when a name is used

    if name == _PLUGINS:
        return importlib.import_module("pumice.plugins")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted((*__all__, _PLUGINS))
