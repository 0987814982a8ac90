"""`pumice open`: what archives hold back, and what is refused of an archive that someone made."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import os
import struct
import sys
import tarfile
from collections.abc import Callable, Mapping
from zlib import crc32

import pytest

from pumice.client.local import export as packing
from pumice.client.local import open_archive
from pumice.store.files.run_store import RunStore
from pumice.store.logs.log_index import encode_record
from scripts.made_runs import Ends, RunMaker, Story, Try
from scripts.made_stories import training_use
from tests.golden.page_server import open_page
from tests.unit.cli.conftest import terminal as terminal  # noqa: PLC0414 - a fixture
from tests.unit.cli.running import COMMAND, Terminal
from tests.unit.cli.screens import OnTerminal

NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
FILE = "pytorch-job-1.tar.gz"
REF = "pytorch-job:1@file"
Files = Mapping[str, bytes]
Entry = tuple[tarfile.TarInfo, bytes]


def _lines(pod: str, _attempt: int) -> list[tuple[float, str, str]]:
    return [(1.0 + step, "stdout", f"{pod} step {step}") for step in range(3)]


@pytest.fixture
def files(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """The files of a good archive, which is in the directory of the test; another machine is to open it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(terminal.folder / "state"))
    maker = RunMaker(RunStore(terminal.folder / "state" / "pumice"), terminal.folder / "jobs", NOW)
    ends = [Ends("master-0", 5.2), Ends("worker-0", 5.0), Ends("worker-1", 5.1)]
    maker.make(Story("pytorch-job", [Try(5.5, ends)], lines=_lines, samples=training_use))
    assert terminal.run("export", "pytorch-job:1").code == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(terminal.folder / "other"))
    with tarfile.open(FILE) as archive:
        return {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]  # all are files


def _pack(entries: list[Entry], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=form) as archive:
        for entry, content in entries:
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def _entry(
    name: str, content: bytes = b"x", kind: bytes = tarfile.REGTYPE, link: str = ""
) -> tuple[tarfile.TarInfo, bytes]:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, link, len(content) if kind == tarfile.REGTYPE else 0
    return entry, content


def _with(files: Files, *more: Entry, **changed: bytes) -> bytes:
    """Return an archive with other contents of some files, by their names with _ for a dot, and with more entries."""
    named = {f"pytorch-job-1/{name.replace('_', '.')}": content for name, content in changed.items()}
    return _pack([*(_entry(name, content) for name, content in {**files, **named}.items()), *more])


def _refused(terminal: Terminal, archive: bytes) -> list[str]:
    """Return the findings without the name of the archive; nothing of it is stored, here or beside."""
    (terminal.folder / "bad.tar.gz").write_bytes(archive)
    before = sorted(terminal.folder.rglob("*"))
    code, out, err = terminal.run("open", "bad.tar.gz")
    assert (code, out) == (2, ""), err
    store = terminal.folder / "other" / "pumice"
    new = {store.parent, store, store / "trash"}
    assert not set(terminal.folder.rglob("*")) - set(before) - new, "nothing is left behind"
    assert "\x1b" not in err
    return [line.removeprefix("bad.tar.gz: ") for line in err.splitlines()]


def _record(files: Files, **changed: object) -> bytes:
    return json.dumps({**json.loads(files["pytorch-job-1/run.json"]), **changed}).encode()


LEADS_OUT, NO_FILE, NO_NAME = "leads out of the archive", "is no ordinary file", "is no name of a file of a run"
ELSEWHERE = "is not in pytorch-job-1, the directory of the run"
OTHER = "is never part of an archive"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        pytest.param(_entry("/etc/canary"), LEADS_OUT, id="absolute path"),
        pytest.param(_entry("pytorch-job-1/../../canary"), LEADS_OUT, id="parent directory"),
        pytest.param(_entry("..", kind=tarfile.DIRTYPE), LEADS_OUT, id="only the parent directory"),
        pytest.param(_entry("pytorch-job-1/link", kind=tarfile.SYMTYPE, link="/etc"), NO_FILE, id="symbolic link"),
        pytest.param(_entry("pytorch-job-1/link", kind=tarfile.LNKTYPE, link="run.json"), NO_FILE, id="hard link"),
        pytest.param(_entry("pytorch-job-1/device", kind=tarfile.CHRTYPE), NO_FILE, id="device"),
        pytest.param(_entry("pytorch-job-1/pipe", kind=tarfile.FIFOTYPE), NO_FILE, id="pipe"),
        pytest.param(_entry("pytorch-job-1/run.json"), "is there twice", id="duplicate"),
        pytest.param(_entry("pytorch-job-1/pods"), "is there twice", id="file for a directory"),
        pytest.param(_entry("pytorch-job-1/run.json/a"), "is there twice", id="directory for a file"),
        pytest.param(_entry("other/run.json"), ELSEWHERE, id="two directories"),
        pytest.param(_entry("run.json"), NO_NAME, id="outside"),
        pytest.param(_entry("pytorch-job-1/.hidden"), NO_NAME, id="hidden"),
        pytest.param(_entry("pytorch-job-1//run"), NO_NAME, id="empty name"),
        pytest.param(_entry("pytorch-job-1/" + "a/" * 9 + "a"), NO_NAME, id="deep"),
        pytest.param(_entry("pytorch-job-1/" + "a" * 300), NO_NAME, id="long name"),
        pytest.param(_entry("pytorch-job-1/\x1b]0;x\x07"), NO_NAME, id="escape sequence"),
        pytest.param(_entry("pytorch-job-1/a\nb"), NO_NAME, id="line break"),
        pytest.param(_entry("pytorch-job-1/owner.lock"), OTHER, id="lock"),
        pytest.param(_entry("pytorch-job-1/kept/file"), OTHER, id="kept files"),
    ],
)
def test_entries_that_are_refused(entry: Entry, why: str, terminal: Terminal, files: Files) -> None:
    (line,) = _refused(terminal, _with(files, entry))
    assert line.endswith(f": {why}"), line


def test_all_findings_are_reported_up_to_a_number(terminal: Terminal, files: Files) -> None:
    bad = [_entry(f"pytorch-job-1/.{number}") for number in range(3)]
    assert len(_refused(terminal, _with(files, *bad))) == 3
    found = _refused(terminal, _with(files, *(_entry(f"pytorch-job-1/.{number}") for number in range(50))))
    assert (len(found), found[-1]) == (21, "and more")


def _sparse() -> bytes:
    """Return an archive with a sparse file of GNU tar, whose map is long."""
    header = tarfile.TarInfo("pytorch-job-1/pods/hole")
    header.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 50)}
    content = b"100000000\n" + b"0\n" * (4 << 20)
    header.size = len(content)
    return _pack([(header, content)])


def _long_header() -> bytes:
    entry = tarfile.TarInfo("pytorch-job-1/a")
    entry.pax_headers = {"path": "pytorch-job-1/" + "a" * (2 << 20)}
    return _pack([(entry, b"")])


BOMBS: dict[str, tuple[Callable[[Files], bytes], str]] = {
    "not an archive": (lambda _files: b"hello", "not an archive of `pumice export`, or cut off"),
    "empty": (lambda _files: b"", "not an archive of `pumice export`, or cut off"),
    "gzip of something else": (lambda _files: gzip.compress(b"hello" * 1000), "not an archive of `pumice export`, or"),
    "no files": (lambda _files: _pack([]), "not an archive of `pumice export`: it has no run.json"),
    "cut off": (lambda files: _with(files)[:-200], "not an archive of `pumice export`, or cut off"),
    "changed": (lambda files: _with(files)[:-8] + b"\0" * 8, "not an archive of `pumice export`, or cut off"),
    "sparse file": (lambda _files: _sparse(), "a header is longer than 1 MiB"),
    "long header": (lambda _files: _long_header(), "a header is longer than 1 MiB"),
    "too many files": (
        lambda _files: _pack([_entry(f"pytorch-job-1/{number}") for number in range(60)]),
        "it has more than 50 files",
    ),
    "too large": (
        lambda _files: _pack([_entry("pytorch-job-1/a.log", bytes(3 << 20))]),
        "its files are larger than 0.00195 GiB in all",
    ),
    "large after its end": (
        lambda files: gzip.compress(gzip.decompress(_with(files)) + bytes(8 << 20)),
        "it has more than 0.0",
    ),
    "large JSON": (
        lambda files: _with(files, _entry("pytorch-job-1/pods/pod.json", bytes(1 << 18))),
        "pytorch-job-1/pods/pod.json: is larger than 0 MiB",
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_archives_that_are_refused(
    bomb: str, terminal: Terminal, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_archive, "MOST_FILES", 50)
    monkeypatch.setattr(open_archive, "MOST_BYTES", 2 << 20)
    monkeypatch.setattr(open_archive, "_MOST_JSON", 1 << 17)
    make, why = BOMBS[bomb]
    found = _refused(terminal, make(files))
    assert found[0].startswith(why), found


def _far_samples() -> bytes:
    records = b""
    for body in (
        struct.pack("<BBHId16s", 1, 1, 1, 0, 0.0, b"a"),
        struct.pack("<BBHIdd8x", 2, 0, 0, 0, 1.0, 1e300),
        struct.pack("<BBHIQQQ", 3, 0, 0, 0, 1, 1, 1),
    ):
        records += body + crc32(body).to_bytes(4, "little")
    return records


CONTENTS: dict[str, tuple[Callable[[Files], dict[str, bytes]], str]] = {
    "record is no JSON": (lambda _: {"run_json": b"{"}, "run.json: Input data was truncated"),
    "record is deep": (lambda _: {"run_json": b"[" * 100_000}, "run.json: "),
    "record of another type": (lambda f: {"run_json": _record(f, job=[])}, "run.json: Expected `object`"),
    "another format": (
        lambda f: {"run_json": _record(f, format=99)},
        "run.json: written by another version of Pumice: format 99, this one reads 3",
    ),
    "path as uid": (lambda f: {"run_json": _record(f, uid="../x")}, "run.json: uid: '../x': must be the uid of a Job"),
    "path as name": (
        lambda f: {"run_json": _record(f, name="../../x")},
        "run.json: default/../../x:1@file: cannot name",
    ),
    "path as namespace": (
        lambda f: {"run_json": _record(f, namespace="../x")},
        "run.json: ../x/pytorch-job:1@file: cannot",
    ),
    "no number": (
        lambda f: {"run_json": _record(f, number=0)},
        "run.json: default/pytorch-job@file: cannot name a run",
    ),
    "a negative number": (
        lambda f: {"run_json": _record(f, number=-1)},
        "run.json: default/pytorch-job:-1@file: cannot",
    ),
    "escapes as name": (
        lambda f: {"run_json": _record(f, name="a\x1b[2J")},
        "run.json: default/a\\x1b[2J:1@file: cannot",
    ),
    "a time far away": (
        lambda f: {"run_json": _record(f, created="9999-12-31T23:59:59Z")},
        "run.json: has a time that is not between 1970 and 2199",
    ),
    "status is no JSON": (lambda _: {"status_json": b"nope"}, "status.json: JSON is malformed"),
    "status of another type": (lambda _: {"status_json": b'{"pods": 3}'}, "status.json: Expected `object`"),
    "journal is no JSON": (lambda _: {"journal_jsonl": b"nope\n{}\n"}, "journal.jsonl: 2 lines cannot be read"),
    "samples far away": (lambda _: {"samples_bin": _far_samples()}, "journal.jsonl: cannot be shown: "),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_contents_that_are_refused(content: str, terminal: Terminal, files: Files) -> None:
    change, why = CONTENTS[content]
    found = _refused(terminal, _with(files, **change(files)))
    assert found[0].startswith(why), found


def test_the_same_archive_twice_is_the_same_run(terminal: Terminal, files: Files) -> None:
    assert terminal.run("open", FILE) == (0, f"{REF}\n", "")
    assert terminal.run("open", FILE) == (0, f"{REF}\n", "it was opened before\n")
    (terminal.folder / "other.tar.gz").write_bytes(_with(files, run_json=_record(files, uid="1" * 8, host="box")))
    refused = terminal.run("open", "other.tar.gz")
    host = json.loads(files["pytorch-job-1/run.json"])["host"]
    hint = f"  hint: pumice rm {REF} removes it\n"
    assert refused == (2, "", f"other.tar.gz: {REF} is another run, of {host}\n{hint}")


def test_an_opened_run_is_only_read(terminal: Terminal, files: Files) -> None:
    terminal.run("open", FILE)
    assert REF not in terminal.run("ps").out
    assert REF in terminal.run("ps", "-a").out
    assert REF in terminal.run("completion", "--names", "runs").out.splitlines()
    assert terminal.run("ps", "pytorch-job").code == 2, "only its full name means it"
    said = f"{REF}: it was opened from a file, to be read only\n  hint: pumice rm {REF} removes it\n"
    for command in ("restart", "suspend", "resume", "detach", "stop"):
        assert terminal.run(command, REF) == (1, "", said), command
    assert terminal.run("scale", REF, "worker=3") == (1, "", said)
    assert terminal.run("forward", f"{REF}/master-0", "80") == (1, "", said)
    assert terminal.run("exec", f"{REF}/master-0", "--", "ls").err == f"{REF} is not running: Succeeded\n"
    assert terminal.run("wait", REF).code == 0
    assert terminal.run("clean", "--older-than", "0d", "-y").code == 0
    assert terminal.run("rm", REF) == (0, f"{REF}\n", "")
    assert terminal.run("get", REF).err.startswith(f"{REF}: no such run\n")


def test_a_run_that_had_not_ended_is_never_active(terminal: Terminal, files: Files) -> None:
    lines = files["pytorch-job-1/journal.jsonl"].splitlines(keepends=True)
    journal = b"".join(line for line in lines if b'"kind":"RunEnded"' not in line)
    running = {name: content for name, content in files.items() if not name.endswith("status.json")}
    (terminal.folder / "running.tar.gz").write_bytes(_with(running, journal_jsonl=journal))
    assert terminal.run("open", "running.tar.gz").out == f"{REF}\n"
    assert terminal.run("ps", "--active").out == terminal.run("ps", "nope").out
    assert "it had not ended when it was exported" in terminal.run("ps", "-a").out
    assert "it had not ended when it was exported" in terminal.run("why", REF).out
    for command in ("attach", "wait", "logs -f"):
        done = terminal.run(*command.split(), REF)
        assert done.err.startswith(f"{REF} had not ended when it was exported\n"), command


def test_indexes_that_lead_elsewhere_are_mended(terminal: Terminal, files: dict[str, bytes]) -> None:
    large = (1 << 64) - 1
    for number, name in enumerate([each for each in files if each.endswith(".idx")]):
        rows = [encode_record(large, large, large, large, 255), encode_record(0, 0, 0, 0), b"x" * number]
        files[name] = b"".join(rows)
    (terminal.folder / "bad.tar.gz").write_bytes(_with(files))
    assert terminal.run("open", "bad.tar.gz").out == f"{REF}\n"
    assert sorted(terminal.run("logs", REF, "--no-prefix").out.split("\n"))[1:4] == [
        f"master-0 step {n}" for n in range(3)
    ]
    assert terminal.run("logs", REF, "--tail", "2", "-t").code == 0


def test_what_an_archive_says_controls_neither_terminal_nor_browser(terminal: Terminal, files: Files) -> None:
    files = {name: content for name, content in files.items() if not name.endswith(".idx")}
    for name in [each for each in files if each.endswith(".log")]:
        files[name] = b"\x1b]0;title\x07\x1b[2J<script>alert(1)</script>\n"
    record = _record(files, note="\x1b[2J<script>", file="\x1b[2J.yaml", host="\x1b[2J")
    (terminal.folder / "bad.tar.gz").write_bytes(_with(files, run_json=record))
    assert terminal.run("open", "bad.tar.gz").out == f"{REF}\n"
    for command in ("why", "history", "replay", "attach", "get"):
        done = terminal.run(command, REF)
        assert done.code == 0
        assert "\x1b" not in done.out + done.err, command
    assert "\x1b" not in terminal.run("ps", "-a").out
    screen = OnTerminal(
        [*COMMAND, "logs", REF], terminal.folder, {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert screen.read_to_end() == 0
    assert b"<script>alert(1)</script>" in screen.raw
    assert b"\x1b[2J" not in screen.raw
    assert b"\x1b]0" not in screen.raw
    with open_page(terminal.folder / "page") as page:
        for path in ("/", f"/jobs/{REF}", *(f"/jobs/{REF}?tab={tab}" for tab in ("resources", "events", "policies"))):
            status, text, _ = page.ask("GET", path)
            assert (status, "<script>alert" in text, "\x1b" in text) == (200, False, False), path
        assert f"<title>{REF}" in page.ask("GET", f"/jobs/{REF}")[1]
        logs = page.ask("GET", f"/api/jobs/{REF}/logs?lines=20&html=1")[1]
        assert "&lt;script&gt;alert(1)" in json.dumps(json.loads(logs))
        actions = {
            each["name"]: each["allowed"] for each in json.loads(page.ask("GET", f"/api/jobs/{REF}")[1])["actions"]
        }
        assert actions == {"suspend": False, "again": False, "stop": False, "delete": True}


def test_an_export_that_fails_leaves_no_file(terminal: Terminal, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal.run("open", FILE)

    def fail(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packing, "_add", fail)
    failed = terminal.run("export", REF, "-o", "part.tar.gz")
    assert failed.code == 2
    assert failed.err.endswith("part.tar.gz: no space left on device\n")
    assert not (terminal.folder / "part.tar.gz").exists()


def test_a_damaged_record_is_exported_without_what_cannot_be_read(
    terminal: Terminal, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(terminal.folder / "state"))
    directory = terminal.folder / "state" / "pumice" / "runs" / "default" / "pytorch-job" / "1"
    with (directory / "journal.jsonl").open("ab") as journal:
        journal.write(b'{"seq": 99, "value": "not comp')
    (directory / "status.json").write_bytes(b"")
    assert terminal.run("export", "pytorch-job", "-o", "damaged.tar.gz").code == 0
    monkeypatch.setenv("XDG_STATE_HOME", str(terminal.folder / "other"))
    assert terminal.run("open", "damaged.tar.gz").out == f"{REF}\n"
    assert terminal.run("wait", REF).out == f"{REF} Succeeded\n"


def test_an_archive_of_an_opened_run(terminal: Terminal, files: Files) -> None:
    terminal.run("open", FILE)
    assert terminal.run("export", REF, "--no-logs").out == "pytorch-job-1@file.tar.gz\n"
    terminal.run("rm", REF)
    assert terminal.run("open", "pytorch-job-1@file.tar.gz") == (0, f"{REF}\n", "the archive has no logs\n")


def test_files_that_cannot_be_opened(terminal: Terminal, files: Files) -> None:
    assert terminal.run("open", "nope") == (2, "", "nope: no such file or directory\n")
    assert terminal.run("open", "jobs") == (2, "", "jobs: is a directory\n")
