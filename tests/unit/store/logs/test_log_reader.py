"""Logs of a run, written by one process and merged by a reader, whatever is cut or damaged."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pumice.engines.local.kubelet.container_logs import LogPump
from pumice.model import keys
from pumice.store.logs import log_reader, log_source
from pumice.store.logs.log_file import LogFile
from pumice.store.logs.log_index import index_of
from pumice.store.logs.log_reader import LogReader, LogSelection
from pumice.store.logs.log_source import LogBatch, LogSource, stream_of
from tests.conftest import SOAK

SECOND = 10**9


@dataclass(slots=True)
class Run:
    """Writes the logs of a run as its engine does; `printed` is what a terminal showed."""

    directory: Path
    segment: int = 1 << 30
    time: int = 1000 * SECOND
    printed: list[tuple[str, bytes]] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    _files: dict[tuple[str, int, str, int], LogFile] = field(default_factory=dict)

    def pod(self, name: str, number: int = 1, attempt: int = 1) -> None:
        directory = self.directory / "pods" / name / str(number)
        directory.mkdir(parents=True, exist_ok=True)
        manifest = {"metadata": {"annotations": {keys.JOB_RETRY_COUNT: str(attempt - 1)}}}
        (directory / "pod.json").write_text(json.dumps(manifest))

    def log(self, pod: str, number: int = 1, container: str = "main", restart: int = 0) -> LogFile:
        key = (pod, number, container, restart)
        if key not in self._files:
            self._files[key] = LogFile(
                self.directory / "pods" / pod / str(number) / f"{container}.{restart}.log",
                pytest.fail,
                lambda: next(self._numbers),
                most=1 << 40,
                segment=self.segment,
                clock=lambda: self.time,
            )
        return self._files[key]

    def print(self, pod: str, text: bytes, stream: str = "stdout", *, number: int = 1, restart: int = 0) -> None:
        self.log(pod, number, restart=restart).write(text, stream)
        self.printed += [(pod, line) for line in text.removesuffix(b"\n").split(b"\n")]

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def read(self, selection: LogSelection | None = None, *, live: bool = False) -> list[tuple[str, bytes]]:
        return lines(LogReader(self.directory, selection or LogSelection()), live=live)


def lines(reader: LogReader, *, live: bool = False) -> list[tuple[str, bytes]]:
    return [
        (execution.pod, line)
        for batches in reader.read(live=live)
        for _, execution, _, _, text in batches
        for line in text.removesuffix(b"\n").split(b"\n")
    ]


PODS = ("a-0", "a-1", "b-0")
# Blocks, windows and segments are so small that short logs have many of them; lines fit into a window.
LINES = st.lists(st.binary(max_size=6).map(lambda text: text.translate(None, b"\r\n")), min_size=1, max_size=4)


@dataclass(frozen=True, slots=True)
class Story:
    batches: Sequence[tuple[str, list[bytes], bool]]
    segment: int
    block: int
    window: int
    tail: int
    pod: str  # whose files are damaged
    at: int
    byte: int | None  # None: the file is cut


STORIES = st.builds(
    Story,
    st.lists(st.tuples(st.sampled_from(PODS), LINES, st.booleans()), max_size=30),
    st.sampled_from([7, 30, 200, 1 << 30]),
    st.integers(1, 5),
    st.integers(8, 60),
    st.integers(0, 40),
    st.sampled_from(PODS),
    st.integers(0, 2000),
    st.none() | st.integers(0, 255),
)


@contextmanager
def _written(story: Story) -> Iterator[Run]:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_source, "BLOCK", story.block)
        patch.setattr(log_reader, "_SMALLEST_WINDOW", story.window)
        patch.setattr(log_reader, "_BUFFER", story.window)
        run = Run(Path(directory), story.segment)
        for pod in PODS:
            run.pod(pod)
        for pod, texts, is_error in story.batches:
            run.time += SECOND
            run.print(pod, b"".join(text + b"\n" for text in texts), "stderr" if is_error else "stdout")
        yield run
        run.close()


def _last(found: Sequence[tuple[str, bytes]], tail: int) -> Sequence[tuple[str, bytes]]:
    return found[max(0, len(found) - tail) :]


def _of(pod: str, found: Sequence[tuple[str, bytes]]) -> list[bytes]:
    return [line for name, line in found if name == pod]


@settings(max_examples=50, deadline=None)
@given(STORIES)
def test_a_merge_keeps_the_order_and_loses_nothing(story: Story) -> None:
    with _written(story) as run:
        assert run.read(live=True) == run.printed
        assert run.read(LogSelection(tail=story.tail), live=True) == _last(run.printed, story.tail)
        run.close()
        assert run.read() == run.printed
        assert run.read(LogSelection(tail=story.tail)) == _last(run.printed, story.tail)
        some = [(pod, line) for pod, line in run.printed if b"a" in line]
        assert run.read(LogSelection(grep=re.compile("a"))) == some
        assert run.read(LogSelection(grep=re.compile("a"), tail=story.tail)) == _last(some, story.tail)
        prefixed = LogReader(run.directory, prefix=lambda execution: execution.pod.encode() + b" ")
        assert lines(prefixed) == [(pod, pod.encode() + b" " + line) for pod, line in run.printed]


@settings(max_examples=50, deadline=None)
@given(STORIES)
@example(Story([("a-1", [b""], False), *[("a-0", [b""], False)] * 2], 7, 1, 8, 1, "a-0", 32, 0))
def test_whatever_is_wrong_with_an_index_the_text_is_shown(story: Story) -> None:
    with _written(story) as run:
        run.close()
        index = index_of(run.log(story.pod).path)
        data = index.read_bytes() if index.exists() else b""
        at = story.at % (len(data) + 1)
        index.parent.mkdir(exist_ok=True)
        index.write_bytes(data[:at] if story.byte is None else data[:at] + bytes([story.byte]) + data[at + 1 :])
        found = run.read()
        for pod in PODS:
            assert _of(pod, found) == _of(pod, run.printed)
        others = [each for each in found if each[0] != story.pod]
        assert others == [each for each in run.printed if each[0] != story.pod]
        assert run.read(LogSelection(tail=story.tail)) == _last(found, story.tail)
        prefixed = lines(LogReader(run.directory, prefix=lambda execution: execution.pod.encode() + b" "))
        assert prefixed == [(pod, pod.encode() + b" " + line) for pod, line in found]


@settings(max_examples=50, deadline=None)
@given(STORIES)
def test_a_text_that_is_cut_at_any_byte_is_shown_up_to_there(story: Story) -> None:
    with _written(story) as run:
        run.close()
        segments = sorted(run.log(story.pod).path.parent.glob("*.log"), key=lambda path: (len(path.name), path.name))
        lost = b""
        for path in segments[-1:]:
            data = path.read_bytes()
            lost = data[story.at % (len(data) + 1) :]
            path.write_bytes(data[: len(data) - len(lost)])
        found = run.read()
        whole = b"".join(line + b"\n" for line in _of(story.pod, run.printed))
        left = b"".join(line + b"\n" for line in _of(story.pod, found))
        assert left.removesuffix(b"\n") == whole[: len(whole) - len(lost)].removesuffix(b"\n")
        assert run.read(LogSelection(tail=story.tail)) == _last(found, story.tail)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two attempts of two pods; in the first one, a-1 restarted its container."""
    run = Run(tmp_path / "run")
    for number in (1, 2):
        for pod in ("a-0", "a-1"):
            run.pod(pod, number, attempt=number)
    run.print("a-0", b"a0 first\n")
    run.print("a-1", b"a1 first\n", "stderr")
    run.time += 60 * SECOND
    run.print("a-1", b"a1 restarted\n", restart=1)
    run.print("a-0", b"a0 second\n", number=2)
    run.time += 60 * SECOND
    run.print("a-1", b"a1 second\n", number=2)
    return run


@pytest.mark.parametrize(
    ("selection", "shown"),
    [
        pytest.param(LogSelection(), "a0 first, a1 first, a1 restarted, a0 second, a1 second", id="all"),
        pytest.param(LogSelection(pods=frozenset({"a-1"})), "a1 first, a1 restarted, a1 second", id="pod"),
        pytest.param(LogSelection(tasks=frozenset({"b"})), "", id="task"),
        pytest.param(LogSelection(container="other"), "", id="container"),
        pytest.param(LogSelection(attempt=1), "a0 first, a1 first, a1 restarted", id="attempt"),
        pytest.param(LogSelection(attempt=2), "a0 second, a1 second", id="newest attempt"),
        pytest.param(LogSelection(previous=True), "a0 first, a1 restarted", id="previous"),
        pytest.param(LogSelection(since=1060 * SECOND), "a1 restarted, a0 second, a1 second", id="since"),
        pytest.param(LogSelection(since=1061 * SECOND, tail=5), "a1 second", id="since and tail"),
        pytest.param(LogSelection(since=2000 * SECOND), "", id="since the end"),
        pytest.param(LogSelection(tail=2, pods=frozenset({"a-1"})), "a1 restarted, a1 second", id="tail of a pod"),
        pytest.param(LogSelection(grep=re.compile("^a. sec")), "a0 second, a1 second", id="grep"),
    ],
)
def test_selections(run: Run, selection: LogSelection, shown: str) -> None:
    run.close()
    assert b", ".join(line for _, line in run.read(selection)).decode() == shown


def test_batches_carry_their_execution_time_and_stream(run: Run) -> None:
    rows = [row for batches in LogReader(run.directory).read() for row in batches]
    found = [
        (number, each.pod, each.number, each.attempt, each.restart, time // SECOND, stream_of(time, flags))
        for number, each, time, flags, _ in rows
    ]
    assert found == [
        (1, "a-0", 1, 1, 0, 1000, "stdout"),
        (2, "a-1", 1, 1, 0, 1000, "stderr"),
        (3, "a-1", 1, 1, 1, 1060, "stdout"),
        (4, "a-0", 2, 2, 0, 1060, "stdout"),
        (5, "a-1", 2, 2, 0, 1120, "stdout"),
    ]


def test_a_clock_that_is_set_back_changes_no_order_and_hides_nothing_that_is_recent(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.pod("a-0")
    run.pod("a-1")
    for number, time in enumerate((7000, 7100, 3400, 3500, 3600)):  # an hour back
        run.time = time * SECOND
        run.print(f"a-{number % 2}", b"%d\n" % number)
    assert [line for _, line in run.read()] == [b"0", b"1", b"2", b"3", b"4"]
    # Ten seconds ago is at 3590.
    assert [line for _, line in run.read(LogSelection(since=3590 * SECOND))] == [b"4"]
    assert [line for _, line in run.read(LogSelection(since=3450 * SECOND))] == [b"3", b"4"]


def test_logs_of_an_earlier_pumice_have_no_index(run: Run) -> None:
    run.close()
    for index in run.directory.rglob("*.idx"):
        index.unlink()
    shown = [b"a0 first", b"a1 first", b"a1 restarted", b"a0 second", b"a1 second"]
    assert [line for _, line in run.read()] == shown
    assert [line for _, line in run.read(LogSelection(tail=2))] == shown[-2:]
    assert run.read(LogSelection(since=1)) == run.read()
    assert run.read(LogSelection(since=1 << 62)) == []


def test_a_pod_without_manifest_is_of_the_attempt_of_its_number(run: Run) -> None:
    for number, content in ((1, "{"), (2, "{}")):
        (run.directory / "pods" / "a-0" / str(number) / "pod.json").write_text(content)
    assert [line for _, line in run.read(LogSelection(attempt=2))] == [b"a0 second", b"a1 second"]


def test_following_waits_for_pods_and_crosses_restarts_until_the_run_ends(tmp_path: Path) -> None:
    run = Run(tmp_path)
    steps: list[Callable[[], None]] = [
        lambda: run.print("a-0", b"1\n"),
        lambda: None,
        lambda: run.print("a-0", b"2\n3\n", restart=1),
        lambda: run.print("a-0", b"4\n", number=2),
        run.close,
    ]
    for pod in ("a-0", "a-1"):
        run.pod(pod, 1, attempt=1)
        run.pod(pod, 2, attempt=2)

    async def wait_for_change() -> bool:
        # Text without a record is not shown before the run has ended.
        with run.log("a-1").path.open("ab") as file:
            file.write(b"half")
        steps.pop(0)()
        return bool(steps)

    async def story() -> list[tuple[int, bytes]]:
        followed = LogReader(run.directory, LogSelection(tail=0)).follow(wait_for_change)
        return [(row[1].attempt, row[4]) async for batches in followed for row in batches]

    assert asyncio.run(story()) == [(1, b"1\n"), (1, b"2\n3\n"), (2, b"4\n"), (1, b"half" * 5 + b"\n")]


def test_a_batch_is_not_shown_before_those_with_smaller_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the reader reads one log after the other, the writer continues."""
    run = Run(tmp_path)
    run.pod("a-0")
    run.pod("a-1")
    run.print("a-0", b"1\n")
    run.print("a-1", b"2\n")
    read, number = LogSource.window, itertools.count(3)

    def window(source: LogSource, size: int) -> list[LogBatch]:
        found = read(source, size)
        for pod in ("a-0", "a-1"):
            run.print(pod, b"%d\n" % next(number))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(LogSource, "window", window)
        reader = LogReader(run.directory)
        seen = [lines(reader, live=True) for _ in range(20)]
    seen.append(lines(reader))
    assert [each for found in seen for each in found] == run.printed


@pytest.mark.parametrize("selection", [LogSelection(), LogSelection(tail=10**6)], ids=["all", "tail"])
def test_memory_does_not_grow_with_the_logs(tmp_path: Path, selection: LogSelection) -> None:
    run, batch = Run(tmp_path), b"x" * 79 + b"\n"
    for index in range(4):
        run.pod(f"a-{index}")
    for _ in range(128):
        for index in range(4):
            run.print(f"a-{index}", batch * 800)
    run.close()
    index_of(run.log("a-3").path).unlink()
    run.printed.clear()
    size = 0
    tracemalloc.start()
    for batches in LogReader(run.directory, selection, lambda _execution: b"a  ").read():
        size += sum(len(row[4]) for row in batches)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size == 4 * 128 * 800 * (len(batch) + 3)
    assert peak < size / 3


def test_eight_pods_with_many_lines_each_through_pipes(tmp_path: Path) -> None:
    count = 50_000 if SOAK else 5_000
    run, seen = Run(tmp_path), list[tuple[str, str]]()

    async def story() -> None:
        pumps = []
        for index in range(8):
            run.pod(f"a-{index}")
            pump = LogPump(
                f"a-{index}",
                "main",
                "stdout",
                run.log(f"a-{index}"),
                lambda lines: seen.extend((line.pod, line.text) for line in lines),
            )
            pipe = pump.open()
            pumps.append((pump, await asyncio.create_subprocess_exec("seq", str(count), stdout=pipe)))
            os.close(pipe)
        for pump, process in pumps:
            await pump.drained()
            assert await process.wait() == 0

    asyncio.run(story())
    run.close()
    found = [(pod, line.decode()) for pod, line in run.read()]
    assert found == seen
    for index in range(8):
        assert [line for pod, line in found if pod == f"a-{index}"] == [str(number) for number in range(1, count + 1)]
