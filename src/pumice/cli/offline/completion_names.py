"""The names that `pumice completion` prints while a line is typed: what only this machine, or a cluster, knows.

Each kind loads what it needs, because a person waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct


class Line(Struct, frozen=True):
    """Where the line that is being completed goes. Its flags win over what commands without them do."""

    on: str = ""
    namespace: str = ""
    kubeconfig: str = ""
    everywhere: bool = False

    @classmethod
    def of(cls, words: Sequence[str]) -> Line:
        """Read the words before the one that is being completed. Shells take `--on=prod` apart, or do not."""
        found: dict[str, str] = {}
        parts = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
        parts = [part for part in parts if part not in ("", "=")]
        for flag, value in pairwise(parts):
            if flag in _WHERE and not value.startswith("-"):
                found[_WHERE[flag]] = value
        everywhere = bool({"-A", "--all-namespaces"} & set(parts))
        return cls(**found, everywhere=everywhere)

    @property
    def context(self) -> str:
        """The cluster; empty for this machine. Raises InvalidOption."""
        from pumice.client.backends import LOCAL
        from pumice.client.run_options.default_context import default_context

        on = self.on or default_context(os.environ)
        return "" if on == LOCAL else on


_WHERE: Final = {
    "--on": "on",
    "--context": "on",
    "-n": "namespace",
    "--namespace": "namespace",
    "--kubeconfig": "kubeconfig",
}


KINDS: Final = ("plugins", "images", "runs", "pods", "contexts", "namespaces")


def names(kind: str, line: Line) -> Iterable[str]:
    """Return the names of a kind. Raises RunError, as for a state directory that cannot be read."""
    if kind == "plugins":
        from pumice.runtime.discovery import discover

        return discover().plugins
    if kind == "images":
        from pumice.engines.local.images.names import familiar
        from pumice.engines.local.images.store import ImageStore, images_directory

        return [familiar(image.name) for image in ImageStore(images_directory()).images()]
    from pumice.client import backends
    from pumice.client.backend import complete

    match kind:
        case "contexts":
            return backends.context_names(line.kubeconfig)
        case "runs" | "namespaces" if line.context:
            what, where = "jobs" if kind == "runs" else kind, (line.context, line.namespace, line.kubeconfig)
            return backends.names_on_cluster(what, *where, everywhere=line.everywhere)
        case "runs":
            return dict.fromkeys(["@last", *complete(backends.open_backend().run_names())])
        case "pods" if not line.context:
            from pumice.client.history_values import pod_names

            backend = backends.open_backend()
            return pod_names(complete(backend.history(complete(backend.find("@last")))))
    return ()
