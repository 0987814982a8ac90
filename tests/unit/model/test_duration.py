"""The tables of this file were checked against Go's own implementation (time, Go 1.26)."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.model.duration import Duration

US, MS, S, M, H = 10**3, 10**6, 10**9, 60 * 10**9, 3600 * 10**9
LONGEST = 2**63 - 1
MEGABYTE = 10**6

# text, nanoseconds, as Go prints it
FACTS: list[tuple[str, int, str]] = [
    ("0", 0, "0s"),
    ("+0", 0, "0s"),
    ("-0", 0, "0s"),
    ("0s", 0, "0s"),
    ("-0s", 0, "0s"),
    ("00h", 0, "0s"),
    ("5s", 5 * S, "5s"),
    ("+5s", 5 * S, "5s"),
    ("-5s", -5 * S, "-5s"),
    ("30s", 30 * S, "30s"),
    ("007s", 7 * S, "7s"),
    ("1478s", 1478 * S, "24m38s"),
    ("1s", S, "1s"),
    ("60s", M, "1m0s"),
    ("+1m", M, "1m0s"),
    ("3600s", H, "1h0m0s"),
    ("1h30m", 90 * M, "1h30m0s"),
    ("90m", 90 * M, "1h30m0s"),
    ("1.5h", 90 * M, "1h30m0s"),
    ("1h1s", H + S, "1h0m1s"),
    ("30m1h", 90 * M, "1h30m0s"),
    ("1s1s1s", 3 * S, "3s"),
    ("-2h45m", -165 * M, "-2h45m0s"),
    ("24h", 24 * H, "24h0m0s"),
    ("8760h", 8760 * H, "8760h0m0s"),
    (".5s", 500 * MS, "500ms"),
    ("5.s", 5 * S, "5s"),
    ("5.6s", 5600 * MS, "5.6s"),
    ("-.5m", -30 * S, "-30s"),
    ("300ms", 300 * MS, "300ms"),
    ("1.0ms", MS, "1ms"),
    ("999ms", 999 * MS, "999ms"),
    ("1.5ms", 1500 * US, "1.5ms"),
    ("1us", US, "1\u00b5s"),
    ("1.5us", 1500, "1.5\u00b5s"),
    ("12\u00b5s", 12 * US, "12\u00b5s"),
    ("12\u03bcs", 12 * US, "12\u00b5s"),
    ("999us", 999 * US, "999\u00b5s"),
    ("1ns", 1, "1ns"),
    ("-999ns", -999, "-999ns"),
    ("1.9ns", 1, "1ns"),
    ("0.9ns", 0, "0s"),
    ("1h2m3s4ms5us6ns", H + 2 * M + 3 * S + 4 * MS + 5 * US + 6, "1h2m3.004005006s"),
    ("10.000000001s", 10 * S + 1, "10.000000001s"),
    ("39h9m14.425s", 39 * H + 9 * M + 14425 * MS, "39h9m14.425s"),
    ("52763797000ns", 52763797000, "52.763797s"),
    # Go works the decimals out in floating point.
    ("0.3333333333333333333h", 1200 * S, "20m0s"),
    ("0.100000000000000000000h", 360 * S, "6m0s"),
    ("0.830103483285477580700h", 2988372539827, "49m48.372539827s"),
    ("0.9223372036854775807s", 922337203, "922.337203ms"),
    ("0.92233720368547758071s", 922337203, "922.337203ms"),
    ("0.9339194799069444444h", 3362110127664, "56m2.110127664s"),
    ("0.8464336744086111111111h", 3047161227871, "50m47.161227871s"),
    ("1.9999999999999999999h", 2 * H, "2h0m0s"),
    ("0." + "0" * 30 + "1h", 0, "0s"),
    # The limits of 64 bits
    ("9007199254.740993s", 9007199254740993000, "2501999h47m34.740993s"),
    ("9223372036854775807ns", LONGEST, "2562047h47m16.854775807s"),
    ("9223372036854775.807us", LONGEST, "2562047h47m16.854775807s"),
    ("9223372036s854ms775us807ns", LONGEST, "2562047h47m16.854775807s"),
    ("-9223372036854775808ns", -(2**63), "-2562047h47m16.854775808s"),
    ("2562047h", 2562047 * H, "2562047h0m0s"),
]


@pytest.mark.parametrize(
    ("text", "nanoseconds", "printed"),
    [pytest.param(*fact, id=fact[0].encode("unicode_escape").decode()) for fact in FACTS],
)
def test_a_duration_reads_and_prints_as_go_does(text: str, nanoseconds: int, printed: str) -> None:
    duration = Duration.parse(text)

    assert duration == Duration(nanoseconds)
    assert str(duration) == printed


@pytest.mark.parametrize(
    "text",
    ["", "+", "-", "--5s", "+-5s", "s", ".", ".s", "-.s", "+.s", " 5s", "one", "1h 5m ", "1s.", "\u0665s", "\uff15s"],
    ids=ascii,
)  # fmt: skip
def test_what_is_no_duration_is_refused_with_what_is_accepted(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"(must be a duration such as 10s, 5m or 1h30m|the units are h m s ms us ns)$"
    ):
        Duration.parse(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("30", "missing unit, must be a duration such as 10s, 5m or 1h30m", id="no unit"),
        pytest.param("1.5", "missing unit, must be a duration such as 10s, 5m or 1h30m", id="no unit after decimals"),
        pytest.param("1h30", "missing unit, must be a duration such as 10s, 5m or 1h30m", id="no last unit"),
        pytest.param("00", "missing unit, must be a duration such as 10s, 5m or 1h30m", id="two zeros"),
        pytest.param("1.2.3s", "missing unit, must be a duration such as 10s, 5m or 1h30m", id="two points"),
        pytest.param("1d", "unknown unit 'd', the units are h m s ms us ns", id="days"),
        pytest.param("5min", "unknown unit 'min', the units are h m s ms us ns", id="min"),
        pytest.param("5S", "unknown unit 'S', the units are h m s ms us ns", id="upper case"),
        pytest.param("5 s", "unknown unit ' s', the units are h m s ms us ns", id="space"),
        pytest.param("5s\n", "unknown unit 's\\n', the units are h m s ms us ns", id="newline"),
        pytest.param("1e3s", "unknown unit 'e', the units are h m s ms us ns", id="exponent"),
        pytest.param("1h-5m", "unknown unit 'h-', the units are h m s ms us ns", id="inner sign"),
        pytest.param("9223372036854775808ns", "too long, must be at most 2562047h47m16.854775807s", id="too long"),
        pytest.param("9223372036854775.808us", "too long, must be at most 2562047h47m16.854775807s", id="by decimals"),
        pytest.param("9223372036854ms775us808ns", "too long, must be at most 2562047h47m16.854775807s", id="by sum"),
        pytest.param("-9223372036854775809ns", "too long, must be at most 2562047h47m16.854775807s", id="negative"),
        pytest.param("2562048h", "too long, must be at most 2562047h47m16.854775807s", id="hours"),
        pytest.param("10000000000000000000000h", "too long, must be at most 2562047h47m16.854775807s", id="digits"),
    ],
)
def test_each_mistake_is_named(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r": ") as caught:
        Duration.parse(text)

    assert str(caught.value) == f"{text!r}: {problem}"


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "null"), (30, "a number"), (1.5, "a number"), (True, "a boolean"), ([], "a list")]
)
def test_only_text_is_a_duration(value: object, shown: str) -> None:
    with pytest.raises(ValueError, match=f"^{shown}: must be a duration such as 10s, 5m or 1h30m$"):
        Duration.parse(value)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("0" * MEGABYTE + "5s", 5 * S, id="leading zeros"),
        pytest.param("0." + "5" * MEGABYTE + "s", 555555555, id="decimals"),
        pytest.param("1." + "0" * MEGABYTE + "5s", S, id="zeros after the point"),
        pytest.param("1ns" * 300_000, 300_000, id="parts"),
    ],
)
def test_long_texts_cost_no_more_than_their_length(text: str, nanoseconds: int) -> None:
    assert Duration.parse(text).nanoseconds == nanoseconds


@pytest.mark.parametrize(
    "text", ["1" * MEGABYTE, "1" * MEGABYTE + "s", "1" + "s" * MEGABYTE, "-" * MEGABYTE, "." * MEGABYTE], ids=range(5)
)
def test_long_texts_that_are_wrong_are_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(ValueError, match=r"'\.\.\.: ") as caught:
        Duration.parse(text)

    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "seconds", "delta"),
    [
        ("1h30m", 5400.0, dt.timedelta(hours=1, minutes=30)),
        ("1.5us", 1.5e-6, dt.timedelta(microseconds=2)),
        ("1ns", 1e-9, dt.timedelta(microseconds=1)),
        ("-1.5us", -1.5e-6, dt.timedelta(microseconds=-1)),
        ("2562047h", 2562047 * 3600.0, dt.timedelta(hours=2562047)),
    ],
)
def test_seconds_and_timedelta(text: str, seconds: float, delta: dt.timedelta) -> None:
    duration = Duration.parse(text)

    assert duration.seconds == seconds
    assert duration.timedelta == delta


def test_durations_have_an_order_and_a_hash() -> None:
    assert Duration.parse("59m") < Duration.parse("1h") <= Duration.parse("60m")
    assert len({Duration.parse("1h"), Duration.parse("60m"), Duration(H)}) == 1


@given(st.integers(-LONGEST // 10**6, LONGEST // 10**6))
def test_the_printed_form_reads_back(nanoseconds: int) -> None:
    assert Duration.parse(str(Duration(nanoseconds))) == Duration(nanoseconds)


@given(st.text(max_size=60) | st.from_regex(r"[+-]?([0-9]{0,20}\.?[0-9]{0,20}[hmsnu\u00b5]{0,2}){0,4}", fullmatch=True))
def test_any_text_is_either_a_duration_or_a_value_error(text: str) -> None:
    try:
        duration = Duration.parse(text)
    except ValueError as error:
        assert str(error)  # noqa: PT017  # either outcome is right, as long as it is one of the two
    else:
        assert abs(duration.nanoseconds) <= 2**63
