"""The lines that were read of a Job's logs: in one order, in files of bounded size."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pumice.client.cluster.live.log_spool import LogSpool
from pumice.store.logs.log_source import Execution, LogBatch
from pumice.store.logs.numbered_log import NumberedLog

SECOND = 10**9
A, B = (Execution(f"worker-{index}", 1, 1, "main", 0, "") for index in (0, 1))


def batch(execution: Execution, second: int, text: str) -> LogBatch:
    return (0, execution, second * SECOND, 0, f"{text}\n".encode())


def texts(log: NumberedLog, newest: int = 0) -> list[str]:
    log.find()
    log.number([], newest)
    return [line.decode() for row in range(len(log.seqs)) for line in log.text(row)]


def test_nothing_is_shown_until_all_earlier_lines_are_known() -> None:
    spool = LogSpool()
    spool.add([batch(A, 1, "one"), batch(B, 2, "two")])
    assert texts(NumberedLog(spool, live=True)) == []
    spool.add([batch(A, 3, "three"), batch(A, 3, "four")])
    spool.release()
    log = NumberedLog(spool, live=True)
    assert texts(log) == ["one", "two", "three", "four"]
    spool.add_new([batch(B, 4, "x"), batch(A, 4, "y"), batch(B, 5, "z")])
    assert texts(log) == ["one", "two", "three", "four", "y", "x", "z"]
    assert spool.read("0", 4, 6) == b"three\n"
    assert spool.size("0") == len("one\nthree\nfour\ny\n")


@pytest.mark.parametrize(
    ("seconds", "order"),
    [
        pytest.param([1, 2, 3], ["0", "1", "2"], id="in order"),
        pytest.param([5, 2, 6], ["0", "1", "2"], id="the clock of the node was set back"),
    ],
)
def test_lines_of_one_container_stay_in_their_order(seconds: Sequence[int], order: list[str]) -> None:
    spool = LogSpool()
    for number, second in enumerate(seconds):
        spool.add_new([batch(A, second, str(number))])
    spool.release()
    assert texts(NumberedLog(spool, live=True)) == order


def test_the_oldest_text_is_removed_and_its_lines_stay_numbered() -> None:
    spool = LogSpool(largest=100)
    for second in range(40):
        spool.add_new([batch(A, second, f"line {second:04d}")])
    spool.release()
    found = texts(NumberedLog(spool, live=True))
    assert spool.truncated
    assert len(found) == 40
    assert found[0].strip() == ""
    assert found[-1] == "line 0039"
