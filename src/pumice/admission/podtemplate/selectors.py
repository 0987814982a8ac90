"""Labels and label selectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.podtemplate.checks import required_one_of, required_spelled
from pumice.admission.podtemplate.document_view import View
from pumice.model.findings import Finding
from pumice.model.syntax import label_value_error, qualified_name_error

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")


def check_labels(view: View, key: str) -> Iterator[Finding]:
    """Check a map of labels, such as `labels` or `nodeSelector`."""
    for at, name, value in view.pairs(key):
        if error := qualified_name_error(name):
            yield Finding(at, f"the key {error}", name)
        if isinstance(value, str) and (error := label_value_error(value)):
            yield Finding(at, error, value)


def check_selector(view: View, key: str) -> Iterator[Finding]:
    selector = view.part(key)
    yield from check_labels(selector, "matchLabels")
    for requirement in selector.children("matchExpressions"):
        yield from check_requirement(requirement, _OPERATORS)
        yield from check_label_values(requirement)


def check_requirement(requirement: View, operators: tuple[str, ...]) -> Iterator[Finding]:
    """Check the operator and the number of values; only node selectors have Gt and Lt."""
    yield from required_spelled(requirement, "key", qualified_name_error)
    yield from required_one_of(requirement, "operator", operators)
    operator, count = requirement.text("operator"), requirement.size("values")
    if operator in {"In", "NotIn"} and not count:
        yield requirement.missing("values", f"must have at least one value for {operator}")
    elif operator in {"Exists", "DoesNotExist"} and count:
        yield requirement.missing("values", f"cannot be set with {operator}")
    elif operator in {"Gt", "Lt"} & set(operators) and count != 1:
        yield requirement.missing("values", f"must be exactly one value for {operator}")


def check_label_values(requirement: View) -> Iterator[Finding]:
    for at, value in requirement.texts("values"):
        if error := label_value_error(value):
            yield Finding(at, error, value)


def selector_keys(view: View, key: str) -> list[str]:
    """Return the labels that a selector uses."""
    selector = view.part(key)
    return [
        *(name for _, name, _ in selector.pairs("matchLabels")),
        *(requirement.text("key") for requirement in selector.children("matchExpressions")),
    ]


def check_label_keys(view: View, key: str) -> Iterator[Finding]:
    """Check `matchLabelKeys` and `mismatchLabelKeys`: labels of the pod that narrow the selector beside them."""
    keys = view.texts(key)
    if keys and not view.has("labelSelector"):
        yield view.missing(key, "cannot be set without labelSelector")
        return
    for at, name in keys:
        if error := qualified_name_error(name):
            yield Finding(at, error, name)
