"""The metadata of any object as the API server writes it: only the fields that Pumice reads."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct


class OwnerReference(Struct, rename="camel", frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMetadata(Struct, rename="camel", frozen=True):
    """A bookmark of a watch has only a version."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []

    @property
    def identity(self) -> tuple[str, str, str, str]:
        return self.namespace, self.name, self.uid, self.resource_version

    def is_owned_by(self, uid: str) -> bool:
        return any(owner.uid == uid for owner in self.owner_references)


class AnyObject(Struct, frozen=True):
    """An object of which nothing else is decoded."""

    metadata: ObjectMetadata = ObjectMetadata()


class Secret(AnyObject, frozen=True):
    data: dict[str, str] | None = None


_OBJECT: Final = msgspec.json.Decoder(AnyObject)


def read_metadata(raw: bytes | msgspec.Raw) -> ObjectMetadata:
    return _OBJECT.decode(raw).metadata
