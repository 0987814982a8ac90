"""Who a container runs as: what its manifest says, else its image."""

from __future__ import annotations

from pathlib import Path

from pumice.engines.local.container_spec.accounts import find_group, find_user
from pumice.engines.local.images.file_in_image import read_inside
from pumice.engines.local.images.store import Image
from pumice.engines.local.sandbox.sandbox_errors import USER, StartError
from pumice.model.job import Manifest

_ROOT = (None, 0)


def user_and_group(manifest: Manifest, container: Manifest, image: Image | None) -> tuple[int | None, int | None]:
    """None where nobody says anything: root, whose file system it is. Raises StartError for a name that is unknown."""
    user, group = _asked(manifest, container, "runAsUser"), _asked(manifest, container, "runAsGroup")
    if user is None and image is not None and image.config.user:
        named, _, named_group = image.config.user.partition(":")
        user, found = _image_user(named, read_inside(image.root, "etc/passwd"))
        group = group if group is not None else _image_group(named_group, image.root) or found
    return user, group


def home_of(user: int | None, image: Image | None) -> str:
    """As a container runtime has it: what the image says, else the root. The host's homes are not shown."""
    if user in _ROOT:
        return "/root"
    found = None if image is None else find_user(read_inside(image.root, "etc/passwd"), str(user))
    return "/" if found is None else found[2]


def supplemental_groups(manifest: Manifest) -> tuple[int, ...]:
    """Who is to share volumes is in the group that these belong to."""
    given = (manifest["spec"].get("securityContext") or {}).get("supplementalGroups") or ()
    own = fs_group(manifest)
    return tuple(dict.fromkeys([*map(int, given), *([] if own is None else [own])]))


def fs_group(manifest: Manifest) -> int | None:
    found = ((manifest.get("spec") or {}).get("securityContext") or {}).get("fsGroup")
    return None if found is None else int(found)


def wrongly_root(manifest: Manifest, container: Manifest, user: int | None) -> bool:
    """Whether it must not run as root and would."""
    return user in _ROOT and bool(_asked(manifest, container, "runAsNonRoot"))


def _asked(manifest: Manifest, container: Manifest, field: str) -> int | None:
    """The container's own word comes before the pod's."""
    contexts = (container.get("securityContext") or {}, manifest["spec"].get("securityContext") or {})
    return next((context[field] for context in contexts if context.get(field) is not None), None)


def _image_user(name: str, passwd: str) -> tuple[int, int]:
    found = find_user(passwd, name)
    if found is not None:
        return found[0], found[1]
    raise StartError(USER, f"its image runs as {name}, whom its /etc/passwd does not know: set runAsUser")


def _image_group(name: str, root: Path) -> int | None:
    return find_group(read_inside(root, "etc/group"), name) if name else None
