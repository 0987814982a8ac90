"""What `--code` takes from a directory: which files, how much at most, and what is said of it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pumice.client.cluster.submission import code_parts
from pumice.client.cluster.submission.code_parts import LARGEST_PART, CodeParts, make_parts
from pumice.model.problem import FLAGS
from pumice.store.code.bundles import Bundle, make_bundle, read_bundle, unpack
from pumice.store.code.selection import CodeFiles
from pumice.store.options import ClusterOptions, CodeMode
from pumice.store.run_errors import InvalidOption


def _noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("directory", ["/", "/etc", "/proc/self"])
def test_a_directory_of_the_system_is_not_sent(directory: str) -> None:
    assert "is a directory of the system, which pods do not get" in _refused(Path(directory))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    (folder / "pkg").mkdir(parents=True)
    (folder / "train.py").write_text("print('hello')\n")
    (folder / "pkg" / "model.py").write_text("NAME = 1\n")
    return folder


def _refused(source: Path, **options: object) -> str:
    with pytest.raises(InvalidOption) as caught:
        make_parts(ClusterOptions(code=source, **options))  # type: ignore[arg-type]
    return caught.value.text(FLAGS).replace(str(source), "SRC")


def test_the_same_files_make_the_same_bundle(source: Path, tmp_path: Path) -> None:
    first = make_parts(ClusterOptions(code=source))
    other = tmp_path / "copy"
    (other / "pkg").mkdir(parents=True)
    for name in ("pkg/model.py", "train.py"):
        (other / name).write_bytes((source / name).read_bytes())
    assert make_parts(ClusterOptions(code=other)).sha256 == first.sha256
    (other / "train.py").write_text("print('hello!')\n")
    assert make_parts(ClusterOptions(code=other)).sha256 != first.sha256
    (source / "train.py").chmod(0o755)
    assert make_parts(ClusterOptions(code=source)).sha256 != first.sha256


def test_what_looks_like_a_credential_is_left_out_and_named(source: Path) -> None:
    names = (".env", "server.pem", "id_ed25519", ".netrc", "prod.kubeconfig", "pkg/.env.local")
    for name in names:
        (source / name).write_text("s3cret")
    (source / ".aws").mkdir()
    (source / ".aws" / "credentials").write_text("s3cret")
    code = make_parts(ClusterOptions(code=source))
    assert sorted(code.sizes) == ["pkg/model.py", "train.py"]
    assert sorted(code.left_out) == sorted((*names, ".aws/"))
    [line] = [each for each in code.notes() if each.startswith("left out, because they look like credentials: ")]
    assert ".env" in line


def test_the_five_largest_files_are_said(source: Path) -> None:
    for number in range(1, 8):
        (source / f"f{number}.bin").write_bytes(_noise(number * 10))
    about, largest = make_parts(ClusterOptions(code=source)).notes()
    assert about.startswith("code ")
    assert f": 9 files of {source}, " in about
    assert largest == "the largest: f7.bin (70 B), f6.bin (60 B), f5.bin (50 B), f4.bin (40 B), f3.bin (30 B)"


def test_code_is_limited(source: Path) -> None:
    (source / "weights.bin").write_bytes(_noise((2 << 20) + 10))
    assert _refused(source) == (
        "--code: SRC: 2 MiB, more than 2 MiB; the largest files are weights.bin (2 MiB), train.py (15 B), "
        "pkg/model.py (9 B)\n  hint: name what is no code in .pumiceignore, or raise --code-limit"
    )
    code = make_parts(ClusterOptions(code=source, code_limit=16 << 20))
    assert len(code.parts) == 3
    assert all(sum(map(len, part.values())) <= LARGEST_PART for part in code.parts)
    assert _refused(source, code_limit=(16 << 20) + 1).startswith("--code-limit: ")
    (source / ".pumiceignore").write_text("*.bin\n")
    assert make_parts(ClusterOptions(code=source)).size < 1000


def test_links_out_of_the_directory_are_refused(source: Path) -> None:
    (source / "inside").symlink_to("pkg/model.py")
    make_parts(ClusterOptions(code=source))
    (source / "data").symlink_to("../../data")
    (source / "passwd").symlink_to("/etc/passwd")
    assert _refused(source).startswith("--code: links lead out of SRC: data, passwd\n")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        pytest.param("missing", "no such file or directory", id="not there"),
        pytest.param("train.py", "not a directory", id="a file"),
    ],
)
def test_a_directory_that_cannot_be_read(source: Path, name: str, said: str) -> None:
    assert said in _refused(source / name)


def test_a_directory_without_code(tmp_path: Path) -> None:
    assert "has no code" in _refused(tmp_path)


def test_files_that_change_while_they_are_read(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def changing(times: int) -> None:
        left = [times]

        def make(files: CodeFiles) -> Bundle:
            bundle = make_bundle(files)
            if left[0]:
                left[0] -= 1
                (source / "train.py").write_text("#" * (left[0] + 1))
            return bundle

        monkeypatch.setattr(code_parts, "make_bundle", make)

    changing(1)
    assert make_parts(ClusterOptions(code=source)).sizes["train.py"] == 1
    monkeypatch.undo()
    changing(99)
    assert _refused(source).startswith("--code: files change while they are read: train.py\n")


def test_mounted_files_come_back_as_they_were(source: Path) -> None:
    (source / "large.bin").write_bytes(_noise(900_000))
    (source / "other.bin").write_bytes(_noise(200_000))
    code = make_parts(ClusterOptions(code=source, code_mode=CodeMode.READ_ONLY))
    assert len(code.parts) == 2
    assert {each.path for each in code.files} == set(code.sizes)
    assert _content(code, "large.bin") == _noise(900_000)
    (source / "link").symlink_to("train.py")
    assert _refused(source, code_mode=CodeMode.READ_ONLY).startswith("--code-mode: links cannot be mounted: link\n")
    (source / "link").unlink()
    (source / "huge.bin").write_bytes(bytes(LARGEST_PART + 1))
    assert "files of more than 1 MB cannot be mounted: huge.bin" in _refused(source, code_mode=CodeMode.READ_ONLY)


def _content(code: CodeParts, path: str) -> bytes:
    [file] = [each for each in code.files if each.path == path]
    return code.parts[file.part][file.key]


def test_the_state_of_pumice_is_no_code(source: Path) -> None:
    state = source / "state" / "pumice"
    state.mkdir(parents=True)
    (state / "run.json").write_text("{}")
    assert sorted(make_parts(ClusterOptions(code=source), state).sizes) == ["pkg/model.py", "train.py"]


def test_a_bundle_unpacks_to_what_it_was_made_of(source: Path, tmp_path: Path) -> None:
    code = make_parts(ClusterOptions(code=source))
    data = b"".join(part["part"] for part in code.parts)
    unpack(read_bundle(code.sha256, data), tmp_path / "back")
    assert (tmp_path / "back" / "pkg" / "model.py").read_text() == "NAME = 1\n"
