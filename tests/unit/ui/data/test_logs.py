from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.store.history.event_log import Mark
from pumice.store.journal import SequenceNumbers
from pumice.store.logs.log_file import LogFile
from pumice.store.logs.log_reader import LogReader
from pumice.store.logs.numbered_log import LogFiles, NumberedLog
from pumice.ui.data.logs import RunLog
from pumice.ui.detail_values import LogFilter

ALL = LogFilter()


class Writer:
    """The logs of a run, written as its process writes them."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.numbers, self.marks = directory, SequenceNumbers(), list[Mark]()
        self.files: dict[tuple[str, int], LogFile] = {}

    def write(self, pod: str, text: str, *, stream: str = "stdout", attempt: int = 1) -> None:
        known = self.files.get((pod, attempt))
        if known is None:
            directory = self.directory / "pods" / pod / str(attempt)
            directory.mkdir(parents=True, mode=0o700)
            retries = {"volcano.sh/job-retry-count": str(attempt - 1)}
            (directory / "pod.json").write_text(json.dumps({"metadata": {"annotations": retries}}))
            known = LogFile(
                directory / "c.0.log", print, self.numbers.next, clock=lambda: 10**9 * (self.numbers.last + 1)
            )
            self.files[pod, attempt] = known
        known.write(text.encode(), stream)

    def mark(self, text: str, attempt: int = 1) -> None:
        number = self.numbers.next()
        self.marks.append(Mark(number, 10**9 * number, "phase", text, attempt))

    def log(self, *, live: bool = False) -> RunLog:
        for each in self.files.values():
            each.close()
        log = RunLog(NumberedLog(LogFiles(self.directory), live))
        self.number(log)
        return log

    def number(self, log: RunLog) -> None:
        log.index.find()
        log.index.number(self.marks[len(log.index.marks) :], self.numbers.last)


def texts(
    log: RunLog, chosen: LogFilter = ALL, at: int | None = 0, lines: int = 1000, *, whole: bool = False
) -> list[str]:
    return [line.text for line in log.window(chosen, at, lines, whole=whole).items]


def test_lines_of_all_pods_and_phases_are_numbered_in_their_order(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.mark("Pending")
    writer.write("w-0", "one\ntwo\n")
    writer.write("w-1", "three\n", stream="stderr")
    writer.mark("Failed")
    writer.write("w-0", "four\n", attempt=2)
    log = writer.log()
    assert texts(log) == ["Pending", "one", "two", "three", "Failed", "four"]
    assert texts(log, LogFilter(pod="w-0")) == ["one", "two", "four"]
    assert texts(log, LogFilter(attempt=2)) == ["four"]
    assert texts(log, LogFilter(stream="stderr")) == ["three"]
    assert texts(log, LogFilter(task="pumice")) == ["Pending", "Failed"]
    assert texts(log, ALL, None, 2) == ["Failed", "four"]
    assert texts(log, ALL, 2, 2) == ["two", "three"]
    window = log.window(LogFilter(attempt=1), 0, 10)
    assert (window.total, window.others) == (5, {2: 1})


def test_a_live_log_grows_at_its_end_only(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write("w-0", "one\n")
    log = writer.log(live=True)
    assert texts(log) == ["one"]
    writer.write("w-1", "two\n")
    writer.mark("Running")
    writer.write("w-0", "three\n")
    writer.number(log)
    assert texts(log) == ["one", "two", "Running", "three"]
    assert log.window(ALL, 3, 1).items[0].number == 3


def test_search_is_exact_whatever_the_case_and_the_filter(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    for number in range(300):
        writer.write(f"w-{number % 3}", f"step {number}\nLoss .5 loss\n")
    writer.mark("a loss of time")
    log = writer.log()
    found = log.search(ALL, "LOSS")
    assert (found.total, found.lines) == (301, 601)
    assert found.positions[:2] == (1, 3)
    steps = [number for number in range(1, 300, 3) if str(number).startswith("1")]
    assert log.search(LogFilter(pod="w-1"), "step 1").total == len(steps)
    assert log.search(ALL, ".5").total == 300
    assert log.search(ALL, "nothing").total == 0
    assert log.search(ALL, "").message
    assert log.search(ALL, "loss", after=599).positions == (599, 600)


def test_lines_with_a_text_are_a_log_of_their_own(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    for number in range(300):
        writer.write(f"w-{number % 3}", f"step {number}\n{'Größe' if number % 2 else 'GRÖSSE'} {number}\n")
    log = writer.log()
    assert log.search(ALL, "grö").total == log.search(ALL, "GRÖ").total == 300
    found = log.matching(ALL, "grö", 100, 3)
    assert (found.total, found.lines, found.at) == (300, 600, 100)
    assert [(line.number, line.text) for line in found.items] == [
        (201, "GRÖSSE 100"),
        (203, "Größe 101"),
        (205, "GRÖSSE 102"),
    ]
    assert log.matching(ALL, "grö", None, 2).at == 298
    assert log.matching(LogFilter(pod="w-9"), "grö", 0, 2).items == ()


def test_a_share_of_the_lines_has_all_errors(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    for number in range(1000):
        writer.write("w-0", f"step {number}\nValueError: {number}\n" if number in {333, 777} else f"step {number}\n")
    found = writer.log().share(ALL, 2, 100)
    assert (found.total, found.at, found.share, found.items[0].number) == (1002, 2, 10, 2)
    assert [line.text for line in found.items if line.error] == ["ValueError: 333", "ValueError: 777"]
    assert len(found.items) == 102


def test_the_volume_counts_every_line_and_every_error(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    for number in range(500):
        writer.write("w-0", f"step {number}\n")
    writer.write("w-0", "ValueError: bad\n", stream="stderr")
    volume = writer.log().volume(ALL)
    assert (sum(each.lines for each in volume.buckets), len(volume.buckets)) == (501, 200)
    assert (volume.errors, volume.buckets[-1].errors, volume.complete) == (1, 1, True)
    firsts = [each.first for each in volume.buckets]
    assert firsts == sorted(firsts)


def test_the_line_that_is_blamed_is_found(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write("w-0", "ok\n")
    writer.write("w-1", "Traceback (most recent call last):\nValueError: bad\nbye\n")
    log = writer.log()
    assert log.find(ALL, "w-1", 1, "rank 0: ValueError: bad") == 2
    assert log.find(ALL, "w-1", 1, "never printed") == 3
    assert log.find(ALL, "w-9", 1, "ok") is None
    assert log.first_error(ALL) == 1


def test_a_progress_bar_is_shown_as_it_was_drawn_last(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    bar = "".join(f"\r{percent:3}% {'#' * percent}" for percent in range(101))
    writer.write("worker-0", f"{bar}\nended\r\n\r\nplain\n")
    log = writer.log()
    shown = [(line.text, line.redraws, line.cut) for line in log.window(ALL, 0, 10).items]
    assert shown == [(f"100% {'#' * 100}", 100, None), ("ended", 0, None), ("", 0, None), ("plain", 0, None)]
    assert log.window(ALL, 0, 1, whole=True).items[0].text == bar


def test_text_without_an_index_and_damaged_indexes_lose_no_line(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    for number in range(5):
        writer.write("w-0", f"line {number}\n")
    writer.write("w-1", "alone\n")
    log = writer.log()
    assert log.window(ALL, 0, 10).total == 6
    (tmp_path / "pods/w-1/1/c.0.idx").unlink()
    index = tmp_path / "pods/w-0/1/c.0.idx"
    content = bytearray(index.read_bytes())
    content[40] ^= 0xFF
    index.write_bytes(content[:-32])
    assert sorted(texts(writer.log())) == ["alone", *(f"line {number}" for number in range(5))]


def test_a_removed_segment_and_a_very_long_line(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    writer.write("w-0", "x" * 10_000 + "\n")
    writer.write("w-1", "gone\n")
    log = writer.log()
    (line, _) = log.window(ALL, 0, 2).items
    assert (len(line.text), line.cut) == (1000, 10_000)
    (line,) = log.window(ALL, 0, 1, whole=True).items
    assert (len(line.text), line.cut) == (10_000, None)
    (tmp_path / "pods/w-1/1/c.0.log").unlink()
    assert texts(log)[1] == ""


PRINTED = st.lists(
    st.tuples(
        st.sampled_from(["w-0", "w-1", "m-0"]),
        st.lists(st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=5), min_size=1, max_size=4),
        st.sampled_from(["stdout", "stderr"]),
        st.integers(1, 2),
    ),
    max_size=30,
)


@given(printed=PRINTED, at=st.integers(0, 40), count=st.integers(1, 20))
def test_windows_agree_with_the_reader_of_logs(
    tmp_path_factory: pytest.TempPathFactory, printed: list[tuple[str, list[str], str, int]], at: int, count: int
) -> None:
    directory = tmp_path_factory.mktemp("run")
    writer = Writer(directory)
    for pod, lines, stream, attempt in printed:
        writer.write(pod, "".join(f"{line}\n" for line in lines), stream=stream, attempt=attempt)
    log = writer.log()
    whole = b"".join(batch[4] for batches in LogReader(directory).read() for batch in batches)
    expected = whole.decode().split("\n")[:-1]
    assert texts(log, whole=True) == expected
    assert texts(log, ALL, at, count, whole=True) == expected[at : at + count]
