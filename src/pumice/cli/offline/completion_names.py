"""The names that `pumice completion` prints while a line is typed: what only this machine, or a cluster, knows.

Each function imports what it needs, because a person waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
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

    def names(self, what: str) -> list[str]:
        from pumice.client.backends import names_on_cluster

        return names_on_cluster(what, self.context, self.namespace, self.kubeconfig, everywhere=self.everywhere)


_WHERE: Final = {
    "--on": "on",
    "--context": "on",
    "-n": "namespace",
    "--namespace": "namespace",
    "--kubeconfig": "kubeconfig",
}


def _plugin_names(_line: Line) -> Iterable[str]:
    from pumice.runtime.discovery import discover

    return discover().plugins


def _image_names(_line: Line) -> Iterable[str]:
    from pumice.engines.local.images.names import familiar
    from pumice.engines.local.images.store import ImageStore, images_directory

    return [familiar(image.name) for image in ImageStore(images_directory()).images()]


def _context_names(line: Line) -> Iterable[str]:
    from pumice.client.backends import context_names

    return context_names(line.kubeconfig)


def _namespace_names(line: Line) -> Iterable[str]:
    return line.names("namespaces") if line.context else ()


def _run_names(line: Line) -> Iterable[str]:
    if line.context:
        return line.names("jobs")
    from pumice.client.backend import complete
    from pumice.client.backends import open_backend

    return dict.fromkeys(["@last", *complete(open_backend().run_names())])


def _pod_names(line: Line) -> Iterable[str]:
    if line.context:
        return ()
    from pumice.client.backend import complete
    from pumice.client.backends import open_backend
    from pumice.client.history_values import pod_names

    backend = open_backend()
    return pod_names(complete(backend.history(complete(backend.find("@last")))))


NAMES: Final[dict[str, Callable[[Line], Iterable[str]]]] = {
    "plugins": _plugin_names,
    "images": _image_names,
    "runs": _run_names,
    "pods": _pod_names,
    "contexts": _context_names,
    "namespaces": _namespace_names,
}
