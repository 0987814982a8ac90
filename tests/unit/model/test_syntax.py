from __future__ import annotations

from collections.abc import Callable

import pytest

from pumice.model import syntax

LABEL = "must be lower-case letters, digits or '-', and begin and end with a letter or digit"
NAME = "must be letters, digits, '-', '_' or '.', and begin and end with a letter or digit"


@pytest.mark.parametrize(
    ("error_of", "text"),
    [
        pytest.param(syntax.dns_label_error, "a", id="label of one letter"),
        pytest.param(syntax.dns_label_error, "0-a", id="label with a leading digit"),
        pytest.param(syntax.dns_label_error, "a" * 63, id="longest label"),
        pytest.param(syntax.dns_subdomain_error, "a.b-c.0", id="subdomain"),
        pytest.param(syntax.dns_subdomain_error, "a" * 253, id="longest subdomain"),
        pytest.param(syntax.dns_search_error, "_tcp.example.com.", id="search domain with underscore and dot"),
        pytest.param(syntax.dns_search_error, ".", id="the root as search domain"),
        pytest.param(syntax.qualified_name_error, "A_b.c-d", id="plain qualified name"),
        pytest.param(syntax.qualified_name_error, "example.com/A", id="prefixed qualified name"),
        pytest.param(syntax.qualified_name_error, f"{'a' * 253}/{'b' * 63}", id="longest qualified name"),
        pytest.param(syntax.label_value_error, "", id="empty label value"),
        pytest.param(syntax.label_value_error, "v1.0_b", id="label value"),
        pytest.param(syntax.env_name_error, "MY_VAR", id="variable"),
        pytest.param(syntax.env_name_error, "1 weird-name.$", id="variable by the relaxed rule"),
        pytest.param(syntax.config_key_error, "a.b_C", id="config key"),
        pytest.param(syntax.config_key_error, ".hidden", id="config key with a leading dot"),
        pytest.param(syntax.port_name_error, "http-2", id="port name"),
        pytest.param(syntax.port_name_error, "a" * 15, id="longest port name"),
        pytest.param(syntax.http_header_error, "X-Trace-1", id="header"),
    ],
)
def test_what_is_well_spelled(error_of: Callable[[str], str], text: str) -> None:
    assert error_of(text) == ""


@pytest.mark.parametrize(
    ("error_of", "text", "expected"),
    [
        pytest.param(syntax.dns_label_error, "", LABEL, id="empty label"),
        pytest.param(syntax.dns_label_error, "A", LABEL, id="upper case in a label"),
        pytest.param(syntax.dns_label_error, "a.b", LABEL, id="dot in a label"),
        pytest.param(syntax.dns_label_error, "a-", LABEL, id="label ends with a hyphen"),
        pytest.param(syntax.dns_label_error, "a\n", LABEL, id="line end after a label"),
        pytest.param(syntax.dns_label_error, "é", LABEL, id="letter beyond ASCII"),
        pytest.param(syntax.dns_label_error, "a" * 64, "must be at most 63 characters, this has 64", id="long label"),
        pytest.param(syntax.dns_subdomain_error, "a..b", syntax._SUBDOMAIN_RULE, id="two dots in a row"),
        pytest.param(
            syntax.dns_subdomain_error, "a" * 254, "must be at most 253 characters, this has 254", id="long subdomain"
        ),
        pytest.param(
            syntax.dns_search_error,
            "a_.b",
            "must be lower-case letters, digits, '-', '_' or '.', and every part must end with a letter or digit",
            id="search domain ends in underscore",
        ),
        pytest.param(syntax.qualified_name_error, "", NAME, id="empty qualified name"),
        pytest.param(syntax.qualified_name_error, "-a", NAME, id="qualified name begins with a hyphen"),
        pytest.param(
            syntax.qualified_name_error,
            "a/b/c",
            "must be a name, or a DNS prefix and a name with one '/' between them",
            id="two slashes",
        ),
        pytest.param(
            syntax.qualified_name_error, "/b", f"the part before '/' {syntax._SUBDOMAIN_RULE}", id="empty prefix"
        ),
        pytest.param(syntax.qualified_name_error, "a/", f"the part after '/' {NAME}", id="empty name after a prefix"),
        pytest.param(syntax.label_value_error, "a b", NAME, id="space in a label value"),
        pytest.param(syntax.label_value_error, "v" * 64, "must be at most 63 characters, this has 64", id="long value"),
        pytest.param(syntax.env_name_error, "A=B", "must be printable ASCII characters without '='", id="equals sign"),
        pytest.param(syntax.env_name_error, "A\tB", "must be printable ASCII characters without '='", id="tab"),
        pytest.param(syntax.env_name_error, "", "must be printable ASCII characters without '='", id="empty variable"),
        pytest.param(syntax.config_key_error, "..", "must not be '.' or '..'", id="config key that is a directory"),
        pytest.param(syntax.config_key_error, "..a", "must not begin with '..'", id="config key begins with dots"),
        pytest.param(syntax.config_key_error, "a/b", "must be letters, digits, '-', '_' or '.'", id="slash in a key"),
        pytest.param(syntax.port_name_error, "a" * 16, "must be at most 15 characters, this has 16", id="long port"),
        pytest.param(syntax.port_name_error, "80", syntax._PORT_RULE, id="port name without a letter"),
        pytest.param(syntax.port_name_error, "a--b", syntax._PORT_RULE, id="port name with two hyphens"),
        pytest.param(syntax.port_name_error, "-a", syntax._PORT_RULE, id="port name begins with a hyphen"),
        pytest.param(syntax.port_name_error, "a-", syntax._PORT_RULE, id="port name ends with a hyphen"),
        pytest.param(syntax.port_name_error, "Http", syntax._PORT_RULE, id="port name in upper case"),
        pytest.param(syntax.http_header_error, "X Y", "must be letters, digits or '-'", id="space in a header"),
    ],
)
def test_what_is_not(error_of: Callable[[str], str], text: str, expected: str) -> None:
    assert error_of(text) == expected
