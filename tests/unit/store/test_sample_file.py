"""Samples of pods are stored as records that survive a killed writer, a damaged byte and a restart of the machine."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pumice.store.sample_file import FILE, Sample, SampledPod, SampleWriter, Usage, read_samples

BEGIN = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
LONG = "a-task-whose-name-needs-several-records-0"
RECORD = 36


def pod(name: str = "w-0", attempt: int = 1, started: float = 100.0, uid: str = "") -> SampledPod:
    return SampledPod(uid or f"{name}/{attempt}", name, attempt, started)


def write(directory: Path, *rounds: tuple[float, list[tuple[SampledPod, Usage]]]) -> None:
    writer = SampleWriter(directory)
    for t, found in rounds:
        writer.append(t, BEGIN + dt.timedelta(seconds=t - 100), found)
    writer.close()


def test_samples_are_read_as_they_were_written(tmp_path: Path) -> None:
    gpu = Usage(3.5, 2048, gpus=2, gpu=97.25, gpu_memory=3 << 30)
    write(tmp_path, (102.0, [(pod(), Usage(1.0, 1024)), (pod(LONG), gpu)]), (104.0, [(pod(), Usage(2.0, 4096))]))
    assert read_samples(tmp_path) == [
        Sample(pod="w-0", attempt=1, time=BEGIN + dt.timedelta(seconds=2), t=102, cpu=0.5, cpu_seconds=1, memory=1024),
        Sample(
            pod=LONG,
            attempt=1,
            time=BEGIN + dt.timedelta(seconds=2),
            t=102,
            cpu=1.75,
            cpu_seconds=3.5,
            memory=2048,
            gpus=2,
            gpu=97.25,
            gpu_memory=3 << 30,
        ),
        Sample(pod="w-0", attempt=1, time=BEGIN + dt.timedelta(seconds=4), t=104, cpu=0.5, cpu_seconds=2, memory=4096),
    ]


def test_a_pod_an_attempt_and_what_is_new_can_be_chosen(tmp_path: Path) -> None:
    write(
        tmp_path,
        (101.0, [(pod("w-0"), Usage(1, 1)), (pod("w-1"), Usage(1, 1))]),
        (102.0, [(pod("w-0", 2), Usage(1, 1)), (pod("w-1", 2), Usage(3, 1))]),
        (103.0, [(pod("w-0", 2), Usage(2, 1)), (pod("w-1", 2), Usage(3, 1))]),
    )
    assert [(each.pod, each.attempt, each.t) for each in read_samples(tmp_path, pod="w-1", attempt=2)] == [
        ("w-1", 2, 102.0),
        ("w-1", 2, 103.0),
    ]
    assert [(each.pod, each.cpu) for each in read_samples(tmp_path, since=102.0)] == [("w-0", 1.0), ("w-1", 0.0)]


def test_a_file_cut_at_any_byte_is_read_up_to_there_and_continued(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    write(whole, (101.0, [(pod(LONG), Usage(1, 1))]), (102.0, [(pod(LONG), Usage(2, 2))]))
    content = (whole / FILE).read_bytes()
    expected = read_samples(whole)
    for size in range(len(content)):
        cut = tmp_path / str(size)
        cut.mkdir()
        (cut / FILE).write_bytes(content[:size])
        before = read_samples(cut)
        assert before == expected[: len(before)]
        write(cut, (103.0, [(pod("w-7"), Usage(1, 7))]))
        after = read_samples(cut)
        assert after[:-1] == before
        assert (after[-1].pod, after[-1].memory) == ("w-7", 7)


def test_a_damaged_record_costs_only_itself(tmp_path: Path) -> None:
    write(tmp_path, *((100.0 + number, [(pod(), Usage(number, number))]) for number in range(1, 5)))
    content = bytearray((tmp_path / FILE).read_bytes())
    content[RECORD * 4 + 20] ^= 0xFF  # of the second sample
    (tmp_path / FILE).write_bytes(content)
    assert [each.memory for each in read_samples(tmp_path)] == [1, 3, 4]


def test_a_new_process_does_not_reuse_the_numbers_of_pods(tmp_path: Path) -> None:
    write(tmp_path, (101.0, [(pod("w-0"), Usage(1, 1))]))
    write(tmp_path, (5.0, [(pod("w-1", started=4.0), Usage(1, 2))]))
    assert [(each.pod, each.cpu, each.t) for each in read_samples(tmp_path)] == [("w-0", 1.0, 101.0), ("w-1", 1.0, 5.0)]


def test_two_pods_of_one_name_and_attempt_are_distinguished(tmp_path: Path) -> None:
    first, second = pod(uid="a"), pod(uid="b", started=110)
    write(tmp_path, (101.0, [(first, Usage(1, 1))]), (112.0, [(second, Usage(0.5, 1))]))
    assert [each.cpu for each in read_samples(tmp_path)] == [1.0, 0.25]


def test_a_run_without_samples_has_none(tmp_path: Path) -> None:
    assert read_samples(tmp_path) == []
