"""Objects beside the pods: how they are owned, and which of them hold something that is made once.

A plugin says which objects should exist; whoever reconciles them creates, repairs and removes them. Key material is
the exception to "same input, same output": it is made when its Secret is created and never again, so it is described
here as a recipe that the engine carries out with its own source of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pumice.model.job import Job, Manifest
from pumice.model.vocabulary import GROUP_VERSION, KIND


def owner_reference(job: Job) -> Manifest:
    return {
        "apiVersion": GROUP_VERSION,
        "kind": KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned(job: Job, api_version: str, kind: str, name: str, body: Mapping[str, Any]) -> Manifest:
    """An object in the job's namespace that goes when the job goes."""
    metadata = {"name": name, "namespace": job.namespace, "ownerReferences": [owner_reference(job)]}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **body}


@dataclass(frozen=True, slots=True)
class KeyPair:
    private: str
    public: str


KeyMaker = Callable[[str], KeyPair]  # "rsa" or "ed25519" -> a fresh pair


@dataclass(frozen=True, slots=True)
class Once:
    """A Secret of which some entries are filled when it is created, and left alone ever after."""

    manifest: Manifest
    make: Callable[[KeyMaker], Mapping[str, str]]
    given: bool = False  # the entries come from the user's file rather than from a key maker

    def created_with(self, keys: KeyMaker) -> Manifest:
        return {**self.manifest, "stringData": {**self.make(keys), **self.manifest["stringData"]}}


Companion = Manifest | Once
