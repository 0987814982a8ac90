"""Labels and annotations of a pod template, and the metadata that has no effect there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.annotations import check_known_annotations
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.selectors import check_labels
from pumice.model.findings import Finding
from pumice.model.syntax import qualified_name_error

_USED: Final = ("labels", "annotations")
_LARGEST_ANNOTATIONS: Final = 256 * 1024


def check_labels_and_annotations(metadata: View) -> Iterator[Finding]:
    yield from check_labels(metadata, "labels")
    size = 0
    for at, name, value in metadata.pairs("annotations"):
        # Kubernetes checks the keys of annotations in lower case.
        if error := qualified_name_error(name.lower()):
            yield Finding(at, f"the key {error}", name)
        size += len(name.encode(errors="surrogatepass")) + len(str(value).encode(errors="surrogatepass"))
    if size > _LARGEST_ANNOTATIONS:
        yield metadata.missing("annotations", f"must be at most 256 KiB together, these are {-(-size // 1024)} KiB")


def check_metadata(template: View) -> Iterator[Finding]:
    """Check the metadata of a template, of which pods get only labels and annotations."""
    metadata = template.part("metadata")
    yield from check_labels_and_annotations(metadata)
    for key in metadata.value:
        if isinstance(key, str) and key not in _USED and metadata.has(key):
            yield metadata.warning(key, "has no effect in a pod template, where only labels and annotations count")
    yield from check_known_annotations(metadata, template.part("spec"))
