"""Kubernetes' syntax of names, keys and values.

Each function returns the message of a finding, or an empty string if the text is valid: `if error :=
dns_label_error(name): yield Finding(path, error, name)`. An empty text is valid only as a label's value; callers with
another message for a missing value check for it first.
"""

from __future__ import annotations

import re
from typing import Final

# Values of variables, and of arguments of programs, with such names are not stored.
SECRET_NAME: Final = re.compile("TOKEN|SECRET|PASSWORD|KEY", re.IGNORECASE)

LONGEST_LABEL: Final = 63
LONGEST_SUBDOMAIN: Final = 253
LONGEST_PORT_NAME: Final = 15

# Patterns, compiled when they are first used.
_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORED_LABEL: Final = r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORED_SUBDOMAIN: Final = rf"{_UNDERSCORED_LABEL}(\.{_UNDERSCORED_LABEL})*"
_NAME: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_ENV_NAME: Final = r"[ -<>-~]+"
_CONFIG_KEY: Final = r"[-._A-Za-z0-9]+"
_PORT_CHARACTERS: Final = r"[-a-z0-9]+"
_HTTP_HEADER: Final = r"[-A-Za-z0-9]+"

_LABEL_RULE: Final = "must be lower-case letters, digits or '-', and begin and end with a letter or digit"
_SUBDOMAIN_RULE: Final = (
    "must be lower-case letters, digits, '-' or '.', and every part must begin and end with a letter or digit"
)
_NAME_RULE: Final = "must be letters, digits, '-', '_' or '.', and begin and end with a letter or digit"

_PORT_RULE: Final = (
    "must be lower-case letters, digits or '-', with at least one letter and no '-' at either end or twice in a row"
)


def too_long(text: str, longest: int) -> str:
    return f"must be at most {longest} characters, this has {len(text)}" if len(text) > longest else ""


def _spelled(text: str, pattern: str, longest: int, rule: str) -> str:
    return too_long(text, longest) or ("" if re.fullmatch(pattern, text) else rule)


def dns_label_error(text: str) -> str:
    """RFC 1123 labels: names of containers, volumes and Services, and hostnames."""
    return _spelled(text, _LABEL, LONGEST_LABEL, _LABEL_RULE)


def dns_subdomain_error(text: str) -> str:
    """RFC 1123 subdomains, the names of most objects: labels separated by dots."""
    return _spelled(text, _SUBDOMAIN, LONGEST_SUBDOMAIN, _SUBDOMAIN_RULE)


def dns_search_error(text: str) -> str:
    """Search domains of a pod's resolver: labels may begin with '_', and a dot may end the domain or be all of it."""
    rule = "must be lower-case letters, digits, '-', '_' or '.', and every part must end with a letter or digit"
    return "" if text == "." else _spelled(text.removesuffix("."), _UNDERSCORED_SUBDOMAIN, LONGEST_SUBDOMAIN, rule)


def qualified_name_error(text: str) -> str:
    """Keys of labels and annotations, names of resources and conditions: `name` or `example.com/name`."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return "must be a name, or a DNS prefix and a name with one '/' between them"
    if slash and (error := dns_subdomain_error(prefix)):
        return f"the part before '/' {error}"
    error = _spelled(name, _NAME, LONGEST_LABEL, _NAME_RULE)
    return f"the part after '/' {error}" if slash and error else error


def label_value_error(text: str) -> str:
    return _spelled(text, _NAME, LONGEST_LABEL, _NAME_RULE) if text else ""


def env_name_error(text: str) -> str:
    """Since Kubernetes 1.34, names of variables allow every printable ASCII character except '='."""
    return "" if re.fullmatch(_ENV_NAME, text) else "must be printable ASCII characters without '='"


def config_key_error(text: str) -> str:
    """Keys in the data of a ConfigMap or Secret, which become file names."""
    if text in {".", ".."}:
        return "must not be '.' or '..'"
    rule = "must be letters, digits, '-', '_' or '.'"
    return _spelled(text, _CONFIG_KEY, LONGEST_SUBDOMAIN, rule) or (
        "must not begin with '..'" if text.startswith("..") else ""
    )


def port_name_error(text: str) -> str:
    """Names of ports, which follow IANA's rule for services."""
    if error := _spelled(text, _PORT_CHARACTERS, LONGEST_PORT_NAME, _PORT_RULE):
        return error
    well = any(c.isalpha() for c in text) and "--" not in text and text[0] != "-" and text[-1] != "-"
    return "" if well else _PORT_RULE


def http_header_error(text: str) -> str:
    return "" if re.fullmatch(_HTTP_HEADER, text) else "must be letters, digits or '-'"
