from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engines.kubernetes.api.http1 import ProtocolError, ResponseReader, encode_headers, encode_request


def _response(*lines: str, body: bytes = b"") -> bytes:
    return "\r\n".join(("HTTP/1.1 200 OK", *lines, "", "")).encode() + body


def _read(data: bytes, *, ended: bool = False) -> ResponseReader:
    reader = ResponseReader()
    reader.feed(data)
    if ended:
        reader.feed_end()
    return reader


@pytest.mark.parametrize(
    ("data", "status", "body", "keeps"),
    [
        pytest.param(_response("Content-Length: 5", body=b"hello"), 200, b"hello", True, id="length"),
        pytest.param(_response("content-length:5", body=b"hello"), 200, b"hello", True, id="small letters, no space"),
        pytest.param(_response("Content-Length: 0"), 200, b"", True, id="empty"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True, id="no content"),
        pytest.param(b"HTTP/1.1 304 X\r\nContent-Length: 9\r\n\r\n", 304, b"", True, id="not modified"),
        pytest.param(
            _response("Transfer-Encoding: chunked", body=b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n"),
            200,
            b"hello world",
            True,
            id="chunks",
        ),
        pytest.param(
            _response("Transfer-Encoding: chunked", body=b"A\r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n"),
            200,
            b"0123456789",
            True,
            id="trailer",
        ),
        pytest.param(
            b"HTTP/1.1 100 Continue\r\n\r\n" + _response("Content-Length: 2", body=b"ok"),
            200,
            b"ok",
            True,
            id="interim response",
        ),
        pytest.param(
            _response("Connection: Close", "Content-Length: 2", body=b"ok"), 200, b"ok", False, id="connection: close"
        ),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok", False, id="HTTP/1.0"),
    ],
)
def test_responses_in_pieces(data: bytes, status: int, body: bytes, keeps: bool) -> None:
    for size in (1, 3, len(data)):
        reader = ResponseReader()
        for start in range(0, len(data), size):
            assert not reader.complete
            reader.feed(data[start : start + size])
        assert (reader.complete, reader.status, reader.take(), reader.keeps_connection) == (True, status, body, keeps)
        assert reader.take() == b""


def test_a_body_that_ends_with_the_connection() -> None:
    reader = _read(_response(body=b"all"))
    assert not reader.complete
    reader.feed(b" of it")
    reader.feed_end()
    assert (reader.complete, reader.take(), reader.keeps_connection) == (True, b"all of it", False)


def test_a_body_can_be_taken_while_it_arrives() -> None:
    reader = _read(_response("Transfer-Encoding: chunked"))
    assert (reader.status, reader.take()) == (200, b"")
    reader.feed(b"3\r\nab")
    assert reader.take() == b"ab"
    reader.feed(b"c\r\n2\r\nde\r")
    assert reader.take() == b"cde"
    reader.feed(b"\n0\r\n\r\n")
    assert (reader.take(), reader.complete) == (b"", True)


def test_headers() -> None:
    reader = _read(_response("Retry-After: 7", "X-Other: content-length: 3", "Content-Length: 0"))
    assert reader.header("Retry-After") == "7"
    assert reader.header("content-length") == "0"
    assert reader.header("x-absent") is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 abc OK\r\n\r\n", id="no status"),
        pytest.param(_response("Content-Length: 2", body=b"too long"), id="longer than announced"),
        pytest.param(_response("Content-Length: -2"), id="negative length"),
        pytest.param(_response("Content-Length: 2, 2"), id="two lengths"),
        pytest.param(_response("Content-Length: 2", "Content-Length: 3"), id="two different lengths"),
        pytest.param(_response("Content-Length: \N{SUPERSCRIPT TWO}"), id="length of odd digits"),
        pytest.param(_response("Content-Length: " + "9" * 5000), id="length of 5000 digits"),
        pytest.param(_response("Content-Length: 1_0"), id="length with an underscore"),
        pytest.param(b"HTTP/1.1 +20 OK\r\n\r\n", id="status with a sign"),
        pytest.param(_response("Transfer-Encoding: gzip, chunked"), id="another transfer encoding"),
        *(
            pytest.param(_response("Transfer-Encoding: chunked", body=size + b"\r\n"), id=f"chunk size {size!r}")
            for size in (b"0x5", b"+5", b"1_0", b" 5", b"5 ", b"")
        ),
        pytest.param(_response("Transfer-Encoding: chunked", body=b"2\r\nabXY0\r\n\r\n"), id="wrong end of a chunk"),
        pytest.param(_response("Transfer-Encoding: chunked", body=b"2\r\nab\rX"), id="half a wrong end"),
        pytest.param(_response("Transfer-Encoding: chunked", body=b"xyz\r\n"), id="chunk without size"),
        pytest.param(_response("Transfer-Encoding: chunked", body=b"-5\r\n"), id="chunk with negative size"),
        pytest.param(_response("Transfer-Encoding: chunked", body=b"1" * 5000), id="size without end"),
        pytest.param(_response("Transfer-Encoding: chunked", body=b"0\r\n\r\nmore"), id="more after the last chunk"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, id="head without end"),
    ],
)
def test_invalid_responses(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        _read(data)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", id="half a head"),
        pytest.param(_response("Content-Length: 5", body=b"hel"), id="half a body"),
        pytest.param(_response("Transfer-Encoding: chunked", body=b"5\r\nhello\r\n"), id="no last chunk"),
    ],
)
def test_a_connection_that_ends_early(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="in the middle"):
        _read(data, ended=True)


def test_unrequested_data_is_refused() -> None:
    reader = _read(_response("Content-Length: 0"))
    reader.feed_end()
    with pytest.raises(ProtocolError, match="without a request"):
        reader.feed(b"HTTP/1.1 408 Request Timeout\r\n\r\n")


@given(chunks=st.lists(st.binary(min_size=1, max_size=50), max_size=8), data=st.data())
def test_any_body_in_any_pieces(chunks: list[bytes], data: st.DataObject) -> None:
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    sent = _response("Transfer-Encoding: chunked", body=body)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(sent) - 1), max_size=10)))
    reader, taken = ResponseReader(), b""
    for start, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        reader.feed(sent[start:end])
        taken += reader.take()
    assert reader.complete
    assert taken == b"".join(chunks)


def test_encode_request() -> None:
    headers = encode_headers({"Host": "h", "Accept": "a/b"})
    assert (
        encode_request("GET", "/x?y=%20", headers, None) == b"GET /x?y=%20 HTTP/1.1\r\nHost: h\r\nAccept: a/b\r\n\r\n"
    )
    assert encode_request("POST", "/x", headers, b"{}") == (
        b"POST /x HTTP/1.1\r\nHost: h\r\nAccept: a/b\r\nContent-Length: 2\r\n\r\n{}"
    )
    assert encode_request("POST", "/x", b"", b"").endswith(b"Content-Length: 0\r\n\r\n")


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b"])
def test_a_header_value_cannot_start_another_header(value: str) -> None:
    with pytest.raises(ProtocolError, match="the value of Authorization contains a line break"):
        encode_headers({"Authorization": value})


@pytest.mark.parametrize("target", ["/a b", "/a\r\nb", "/ä", "/a\tb"])
def test_a_path_cannot_start_another_line(target: str) -> None:
    with pytest.raises(ValueError, match="not a valid request path"):
        encode_request("GET", target, b"", None)
