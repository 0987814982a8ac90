"""The tables of this file were checked against Kubernetes' own implementation (apimachinery 0.37.1).

Where its 64-bit numbers overflow, and for the differences that the module names, the tables hold the exact value.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.model.quantity import Format, Quantity

SI, BINARY, EXPONENT = Format.DECIMAL_SI, Format.BINARY_SI, Format.DECIMAL_EXPONENT
INT64_MAX = 2**63 - 1
MEGABYTE = 10**6

# text, canonical form, style kept, value rounded to a whole number, value in thousandths
FACTS: list[tuple[str, str, Format, int, int]] = [
    # Plain numbers
    ("0", "0", SI, 0, 0),
    ("00", "0", SI, 0, 0),
    ("-0", "0", SI, 0, 0),
    ("0.0", "0", SI, 0, 0),
    ("1", "1", SI, 1, 1000),
    ("+1", "1", SI, 1, 1000),
    ("007", "7", SI, 7, 7000),
    ("-5", "-5", SI, -5, -5000),
    ("5.", "5", SI, 5, 5000),
    (".5", "500m", SI, 1, 500),
    ("+.5", "500m", SI, 1, 500),
    ("1.5", "1500m", SI, 2, 1500),
    ("1.500", "1500m", SI, 2, 1500),
    ("-1.5", "-1500m", SI, -2, -1500),
    ("10", "10", SI, 10, 10_000),
    ("1000", "1k", SI, 1000, 1_000_000),
    ("1024", "1024", SI, 1024, 1_024_000),
    ("1234567", "1234567", SI, 1234567, 1234567000),
    ("12300000", "12300k", SI, 12300000, 12300000000),
    # Decimal units
    ("1n", "1n", SI, 1, 1),
    ("1000n", "1u", SI, 1, 1),
    ("1u", "1u", SI, 1, 1),
    ("1500u", "1500u", SI, 1, 2),
    ("500m", "500m", SI, 1, 500),
    ("1000m", "1", SI, 1, 1000),
    ("2500m", "2500m", SI, 3, 2500),
    ("0.1m", "100u", SI, 1, 1),
    ("1k", "1k", SI, 1000, 1_000_000),
    ("1.5k", "1500", SI, 1500, 1_500_000),
    ("1M", "1M", SI, 10**6, 10**9),
    ("1G", "1G", SI, 10**9, 10**12),
    ("1T", "1T", SI, 10**12, 10**15),
    ("1P", "1P", SI, 10**15, 10**18),
    ("1E", "1E", SI, 10**18, 10**21),
    ("999E", "999E", SI, 999 * 10**18, 999 * 10**21),
    ("0.001E", "1P", SI, 10**15, 10**18),
    ("1.G", "1G", SI, 10**9, 10**12),
    ("0k", "0", SI, 0, 0),
    # Binary units
    ("1Ki", "1Ki", BINARY, 1024, 1_024_000),
    ("+1Ki", "1Ki", BINARY, 1024, 1_024_000),
    ("1.Ki", "1Ki", BINARY, 1024, 1_024_000),
    ("1024Ki", "1Mi", BINARY, 2**20, 2**20 * 1000),
    ("100Mi", "100Mi", BINARY, 100 * 2**20, 100 * 2**20 * 1000),
    ("1.5Gi", "1536Mi", BINARY, 1536 * 2**20, 1536 * 2**20 * 1000),
    ("4Gi", "4Gi", BINARY, 4 * 2**30, 4 * 2**30 * 1000),
    ("1Ti", "1Ti", BINARY, 2**40, 2**40 * 1000),
    ("1Pi", "1Pi", BINARY, 2**50, 2**50 * 1000),
    ("1Ei", "1Ei", BINARY, 2**60, 2**60 * 1000),
    ("1.5Ki", "1536", BINARY, 1536, 1_536_000),
    ("-2Ki", "-2Ki", BINARY, -2048, -2_048_000),
    ("-1.5Mi", "-1536Ki", BINARY, -1536 * 1024, -1536 * 1024 * 1000),
    ("0Ki", "0", BINARY, 0, 0),
    # A binary unit is kept only where the value is whole and at least 1Ki.
    ("0.5Ki", "512", BINARY, 512, 512_000),
    ("0.9Ki", "921600m", BINARY, 922, 921_600),
    ("1.1Ki", "1126400m", BINARY, 1127, 1_126_400),
    ("0.0005Ki", "512m", SI, 1, 512),
    ("0.0000000001Ki", "103n", SI, 1, 1),
    ("0.0000000000001Ki", "1n", SI, 1, 1),
    ("-0.0005Ki", "-512m", SI, -1, -512),
    # Binary values stop at the largest 64-bit number; decimal ones do not.
    ("7Ei", "7Ei", BINARY, 7 * 2**60, 7 * 2**60 * 1000),
    ("8Ei", str(INT64_MAX), BINARY, INT64_MAX, INT64_MAX * 1000),
    ("1000Ei", str(INT64_MAX), BINARY, INT64_MAX, INT64_MAX * 1000),
    ("-1000Ei", str(-INT64_MAX), BINARY, -INT64_MAX, -INT64_MAX * 1000),
    ("9223372036854775808", "9223372036854775808", SI, 2**63, 2**63 * 1000),
    # Exponents
    ("1e3", "1e3", EXPONENT, 1000, 1_000_000),
    ("1E3", "1e3", EXPONENT, 1000, 1_000_000),
    ("1e+3", "1e3", EXPONENT, 1000, 1_000_000),
    ("1e003", "1e3", EXPONENT, 1000, 1_000_000),
    ("1e0", "1", EXPONENT, 1, 1000),
    ("1e4", "10e3", EXPONENT, 10_000, 10_000_000),
    ("12e5", "1200e3", EXPONENT, 1_200_000, 1_200_000_000),
    ("1.5e3", "1500", EXPONENT, 1500, 1_500_000),
    ("1e-3", "1e-3", EXPONENT, 1, 1),
    ("1.5e-4", "150e-6", EXPONENT, 1, 1),
    ("-1e-1", "-100e-3", EXPONENT, -1, -100),
    ("1e21", "1e21", EXPONENT, 10**21, 10**24),
    ("5e499", "50e498", EXPONENT, 5 * 10**499, 5 * 10**502),
    ("0e999999999", "0", EXPONENT, 0, 0),
    # What is finer than a billionth is rounded up to one, away from zero.
    ("0.1n", "1n", SI, 1, 1),
    ("1.1n", "2n", SI, 1, 1),
    ("-0.1n", "-1n", SI, -1, -1),
    ("0.0000000001", "1n", SI, 1, 1),
    ("0.1234567891", "123456790n", SI, 1, 124),
    ("1e-10", "1e-9", EXPONENT, 1, 1),
    ("1e-100", "1e-9", EXPONENT, 1, 1),
    # Many digits
    ("123456789012345678901234567890", "123456789012345678901234567890", SI, 123456789012345678901234567890, 0),
    ("9" * 100, "9" * 100, SI, 10**100 - 1, 0),
    ("1." + "0" * 99 + "1", "1000000001n", SI, 2, 1001),
    ("0." + "3" * 100 + "Ei", "384307168202282325333333334n", BINARY, 384307168202282326, 384307168202282325334),
]

NOT_QUANTITIES = [
    "", " ", "+", "-", ".", "+.", "--1", "+-1", "- 1", " 1", "1 ", "1 Gi", "1\n", "1\x00", "1,5", "1.5.0", "1..5",
    "1_000", "0x1", "0b1", "1e+", "1e-", "1e1.5", "1e 3", "1e3k", "1ee3", "1e+-3", "1e99999999999999999999",
    "1e\u0663", "\u0663", "1\u0663", "\uff11", "\u00bd", "1\u00b5", "inf", "NaN", "Ki", "m", "e3", "E", "one",
    "1Ki2", "1k3",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "canonical", "style", "value", "milli"), [pytest.param(*fact, id=fact[0][:40]) for fact in FACTS]
)
def test_a_quantity_reads_and_prints_as_kubernetes_does(
    text: str, canonical: str, style: Format, value: int, milli: int
) -> None:
    quantity = Quantity.parse(text)

    assert str(quantity) == canonical
    assert quantity.format is style
    assert quantity.value() == value
    assert quantity.milli_value() == (milli or value * 1000)
    assert Quantity.parse(canonical) == quantity


@pytest.mark.parametrize("text", NOT_QUANTITIES, ids=repr)
def test_what_is_no_quantity_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be a quantity such as 500m, 2, 1\.5, 4Gi or 1e3$") as caught:
        Quantity.parse(text)

    assert str(caught.value).startswith(repr(text))


@pytest.mark.parametrize("unit", ["K", "ki", "KI", "GB", "Gib", "g", "B", "i", "mm", "kM", "e", "cores"])
def test_an_unknown_unit_is_named_beside_the_known_ones(unit: str) -> None:
    with pytest.raises(ValueError, match=f"^'4{unit}': unknown unit '{unit}', the units are n u m k M G T P E and Ki"):
        Quantity.parse(f"4{unit}")


@pytest.mark.parametrize(
    ("number", "canonical"),
    [
        pytest.param(0, "0", id="zero"),
        pytest.param(2, "2", id="int"),
        pytest.param(-3000, "-3k", id="negative int"),
        pytest.param(0.1, "100m", id="float is what was written"),
        pytest.param(1.5, "1500m", id="float"),
        pytest.param(-0.0, "0", id="negative zero"),
        pytest.param(1e22, "10000E", id="large float"),
        pytest.param(5e-324, "1n", id="smallest float"),
        pytest.param(2**64, "18446744073709551616", id="beyond 64 bits"),
    ],
)
def test_numbers_are_read_too(number: float, canonical: str) -> None:
    assert str(Quantity.parse(number)) == canonical


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "a boolean"),
        ([1], "a list"),
        ({}, "a mapping"),
        (b"1", "a bytes"),
        (float("inf"), "inf"),
        (float("nan"), "nan"),
    ],
    ids=repr,
)
def test_other_values_are_refused(value: object, shown: str) -> None:
    with pytest.raises(ValueError, match=f"^{shown}: must be a quantity such as"):
        Quantity.parse(value)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("1e500", id="exponent"),
        pytest.param("1e999999999", id="huge exponent"),
        pytest.param("-1e999999999999999999", id="exponent beyond 32 bits"),
        pytest.param("1" * 501, id="digits"),
        pytest.param("1" * MEGABYTE, id="a megabyte of digits"),
        pytest.param(10**500, id="int"),
        pytest.param(-(10**5000), id="int that cannot be printed"),
    ],
)
def test_a_value_of_more_than_500_digits_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"too large.*must be below 1e500") as caught:
        Quantity.parse(value)

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("0" * MEGABYTE + "5", "5", id="leading zeros"),
        pytest.param("0." + "1" * MEGABYTE, "111111112n", id="decimals"),
        pytest.param("1." + "0" * MEGABYTE + "1", "1000000001n", id="late digit"),
        pytest.param("1." + "0" * MEGABYTE, "1", id="late zeros"),
        pytest.param("2." + "0" * MEGABYTE + "1Ki", "2048000000001n", id="late digit with a binary unit"),
        pytest.param("1" * MEGABYTE + "e-1000000", "111111112e-9", id="digits and exponent"),
        pytest.param("1e-999999999", "1e-9", id="tiny exponent"),
        pytest.param("-1e-999999999999999999", "-1e-9", id="tiny exponent beyond 32 bits"),
        pytest.param("1e" + "0" * MEGABYTE + "2", "100", id="zeros of the exponent"),
    ],
)
def test_long_texts_cost_no_more_than_their_length(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


@pytest.mark.parametrize(
    "text",
    ["1" * MEGABYTE + "x", "." * MEGABYTE, "1e" + "9" * MEGABYTE, "1" + "k" * MEGABYTE, "1e" + "0" * MEGABYTE + "x"],
    ids=["digits", "points", "exponent", "unit", "zeros of the exponent"],
)
def test_long_texts_that_are_wrong_are_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(ValueError, match=r"'\.\.\.: ") as caught:
        Quantity.parse(text)

    assert len(str(caught.value)) < 250


# left, operator, right, canonical form of the result, style of the result
ARITHMETIC: list[tuple[str, str, str, str, Format]] = [
    ("1", "+", "1", "2", SI),
    ("500m", "+", "500m", "1", SI),
    ("1.5", "+", "1500m", "3", SI),
    ("1Gi", "+", "1Gi", "2Gi", BINARY),
    ("1Gi", "+", "512Mi", "1536Mi", BINARY),
    ("1Gi", "+", "1G", "2073741824", BINARY),
    ("1G", "+", "1Gi", "2073741824", SI),
    ("0", "+", "1Gi", "1Gi", BINARY),
    ("0Ki", "+", "1k", "1k", SI),
    ("1e3", "+", "1k", "2e3", EXPONENT),
    ("1k", "+", "1e3", "2k", SI),
    ("1Ki", "+", "500m", "1024500m", BINARY),
    ("1Ki", "+", "-1", "1023", BINARY),
    ("0.0005Ki", "+", "1Ki", "1024512m", SI),
    ("0.1n", "+", "0.1n", "2n", SI),
    ("8Ei", "+", "1", "8Ei", BINARY),
    ("999E", "+", "2E", "1001E", SI),
    ("9223372036854775807", "+", "1", "9223372036854775808", SI),
    ("1e400", "+", "1n", "1" + "0" * 408 + "1e-9", EXPONENT),
    ("1", "-", "1", "0", SI),
    ("1", "-", "1500m", "-500m", SI),
    ("2Gi", "-", "1Gi", "1Gi", BINARY),
    ("1Gi", "-", "1Gi", "0", BINARY),
    ("1Ki", "-", "24", "1k", BINARY),
    ("0", "-", "1Gi", "-1Gi", BINARY),
]


@pytest.mark.parametrize(
    ("left", "operator", "right", "canonical", "style"),
    [pytest.param(*row, id=f"{row[0]} {row[1]} {row[2]}") for row in ARITHMETIC],
)
def test_sums_are_exact_and_keep_the_style_of_the_first(
    left: str, operator: str, right: str, canonical: str, style: Format
) -> None:
    first, second = Quantity.parse(left), Quantity.parse(right)
    result = first + second if operator == "+" else first - second

    assert (str(result), result.format) == (canonical, style)


@pytest.mark.parametrize(
    ("text", "count", "canonical"),
    [("500m", 3, "1500m"), ("256Mi", 4, "1Gi"), ("1e3", 1000, "1e6"), ("1Gi", 0, "0"), ("1", -2, "-2")],
)
def test_a_quantity_can_be_taken_many_times(text: str, count: int, canonical: str) -> None:
    quantity = Quantity.parse(text)

    assert str(quantity * count) == str(count * quantity) == canonical
    assert (quantity * count).format is quantity.format


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("1000E", "1000E", id="decimal"),
        pytest.param("-5000000E", "-5000000E", id="negative"),
        pytest.param("1" + "0" * 21, "1000E", id="no unit"),
    ],
)
def test_a_value_beyond_the_largest_unit_keeps_its_size(text: str, canonical: str) -> None:
    # Kubernetes has no suffix for 10**21 and prints none: `1000E` becomes `1` there.
    assert str(Quantity.parse(text)) == canonical


def test_a_binary_sum_beyond_the_largest_unit_keeps_its_size() -> None:
    assert str(Quantity.parse("1Ei") * 2048) == "2048Ei"


def test_equality_order_and_hash_go_by_value_alone() -> None:
    assert Quantity.parse("1Ki") == Quantity.parse("1024") == Quantity.parse("1.024e3")
    assert (Quantity.parse("1Ki") != Quantity.parse("1024")) is False
    assert Quantity.parse("1Ki") != Quantity.parse("1Mi") != 1
    assert Quantity.parse("1Mi") > Quantity.parse("1Ki") >= Quantity.parse("1024") <= Quantity.parse("1024")
    assert len({Quantity.parse("1000m"), Quantity.parse("1"), Quantity.parse("1e0")}) == 1
    assert Quantity.parse("999Mi") < Quantity.parse("1Gi") < Quantity.parse("1.1G")
    assert Quantity.parse("-1") <= Quantity() <= Quantity.parse("0")


@pytest.mark.parametrize(
    ("text", "traits", "floor", "ceil"),
    [
        ("0", {"zero", "integer"}, 0, 0),
        ("2", {"integer"}, 2, 2),
        ("-2", {"negative", "integer"}, -2, -2),
        ("1500m", set(), 1, 2),
        ("-1500m", {"negative"}, -2, -1),
        ("1n", set(), 0, 1),
        ("0.5Ki", {"integer"}, 512, 512),
    ],
)
def test_questions_about_the_value(text: str, traits: set[str], floor: int, ceil: int) -> None:
    quantity = Quantity.parse(text)

    assert quantity.is_zero is ("zero" in traits)
    assert quantity.is_negative is ("negative" in traits)
    assert quantity.is_integer is ("integer" in traits)
    assert (quantity.floor(), quantity.ceil()) == (floor, ceil)
    assert -quantity == Quantity() - quantity


QUANTITIES = st.builds(Quantity, st.integers(-(10**40), 10**40), st.sampled_from(Format))


@given(QUANTITIES)
def test_the_printed_form_reads_back_as_the_same_value(quantity: Quantity) -> None:
    # Reading caps what has a binary unit at 64 bits; sums may exceed that.
    if not (str(quantity).endswith("i") and abs(quantity.value()) > INT64_MAX):
        assert Quantity.parse(str(quantity)) == quantity


@given(st.text(max_size=60) | st.from_regex(r"[+-]?[0-9.]{0,30}[eEinumkKMGTP]{0,3}[+-]?[0-9]{0,12}", fullmatch=True))
def test_any_text_is_either_a_quantity_or_a_value_error(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017  # either outcome is right, as long as it is one of the two
    else:
        assert Quantity.parse(str(quantity * 1)) == quantity or str(quantity).endswith("i")
