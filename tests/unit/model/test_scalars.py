from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pumice.model.scalars import ScalarMisfit, kind_of, plain_text, scalar_misfit

QUOTE = "quote it: YAML takes yes, no, on, off, y and n for true and false"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, "null", id="null"),
        pytest.param(True, "a boolean", id="a boolean is no number"),
        pytest.param(3, "a number", id="int"),
        pytest.param(1.5, "a number", id="float"),
        pytest.param("x", "a string", id="string"),
        pytest.param({}, "a mapping", id="mapping"),
        pytest.param([], "a list", id="list"),
        pytest.param(datetime(2026, 1, 1, tzinfo=UTC), "a datetime", id="what else a reader may make"),
    ],
)
def test_kind_of(value: object, expected: str) -> None:
    assert kind_of(value) == expected


def test_plain_text_is_as_in_yaml() -> None:
    assert [plain_text(value) for value in (True, False, 1.5, "x")] == ["true", "false", "1.5", "x"]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        pytest.param("string", "", id="an empty string"),
        pytest.param("int32", -(2**31), id="least int32"),
        pytest.param("int32", 2**31 - 1, id="greatest int32"),
        pytest.param("int64", 2**63 - 1, id="greatest int64"),
        pytest.param("bool", False, id="false"),
        pytest.param("number", 0.5, id="a fraction"),
        pytest.param("number", 2, id="a whole number is a number"),
        pytest.param("quantity", "not checked here", id="a quantity's spelling is checked elsewhere"),
        pytest.param("quantity", 2, id="a quantity as a number"),
        pytest.param("intOrString", "http", id="a port by name"),
        pytest.param("intOrString", 80, id="a port by number"),
        pytest.param("time", "2026-01-31T12:00:00Z", id="UTC"),
        pytest.param("time", "2026-01-31T12:00:00.123+02:00", id="fraction and offset"),
        pytest.param("bytes", "aGk=", id="base64"),
        pytest.param("bytes", "aG\nk=", id="base64 on two lines"),
        pytest.param("any", None, id="anything"),
    ],
)
def test_what_fits(type_: str, value: object) -> None:
    assert scalar_misfit(value, type_) is None


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        pytest.param("string", 1, ScalarMisfit("a string", 'quote it: "1"'), id="a number for a string"),
        pytest.param("string", True, ScalarMisfit("a string", QUOTE), id="a boolean for a string"),
        pytest.param("string", None, ScalarMisfit("a string"), id="null for a string"),
        pytest.param("string", ["a"], ScalarMisfit("a string"), id="a list for a string"),
        pytest.param("int32", "80", ScalarMisfit("a whole number", "remove the quotes"), id="a quoted number"),
        pytest.param(
            "int32", "9" * 5000, ScalarMisfit("from -2147483648 to 2147483647"), id="too many digits for YAML"
        ),
        pytest.param("int32", str(2**31), ScalarMisfit("from -2147483648 to 2147483647"), id="quoted, above int32"),
        pytest.param("int32", "eighty", ScalarMisfit("a whole number"), id="a word for a number"),
        pytest.param("int32", True, ScalarMisfit("a whole number"), id="a boolean for a number"),
        pytest.param("int32", 1.5, ScalarMisfit("a whole number"), id="a fraction"),
        pytest.param("int32", 2**31, ScalarMisfit("from -2147483648 to 2147483647"), id="above int32"),
        pytest.param("int32", 1e23, ScalarMisfit("from -2147483648 to 2147483647"), id="so many digits: a float"),
        pytest.param("int64", -(2**63) - 1, ScalarMisfit(f"from {-(2**63)} to {2**63 - 1}"), id="below int64"),
        pytest.param("bool", "True", ScalarMisfit("true or false", "remove the quotes"), id="a quoted boolean"),
        pytest.param("bool", "yes", ScalarMisfit("true or false"), id="a word for a boolean"),
        pytest.param("bool", 1, ScalarMisfit("true or false"), id="a number for a boolean"),
        pytest.param("number", "2", ScalarMisfit("a number"), id="a string for a number"),
        pytest.param("number", False, ScalarMisfit("a number"), id="a boolean is no number"),
        pytest.param("quantity", True, ScalarMisfit("a quantity such as 500m or 2Gi"), id="a boolean quantity"),
        pytest.param("intOrString", 1.5, ScalarMisfit("a whole number or a string"), id="a fractional port"),
        pytest.param("intOrString", 2**31, ScalarMisfit("a whole number or a string"), id="a port above int32"),
        pytest.param("time", "yesterday", ScalarMisfit("a time such as 2026-01-31T12:00:00Z"), id="a word for a time"),
        pytest.param("time", 5, ScalarMisfit("a time such as 2026-01-31T12:00:00Z"), id="a number for a time"),
        pytest.param(
            "bytes", "p@ss", ScalarMisfit("a base64 string", "put plain text under stringData instead"), id="plain text"
        ),
        pytest.param("bytes", 5, ScalarMisfit("a base64 string"), id="a number for bytes"),
    ],
)
def test_what_does_not_fit(type_: str, value: object, expected: ScalarMisfit) -> None:
    assert scalar_misfit(value, type_) == expected


def test_an_unknown_type_is_the_schema_s_mistake() -> None:
    with pytest.raises(KeyError):
        scalar_misfit(1, "int33")
