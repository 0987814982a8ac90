from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pumice.store.code.beneath import Directory
from pumice.store.code.git_index import GitError, LateError, object_id
from pumice.store.code.git_objects import MissingObjectError, ObjectStore, tree_changes, walk_tree
from tests.unit.store.code.repositories import git, make_repository, write

LARGE = "".join(f"line {number} of a file that becomes a delta\n" for number in range(3000))


@contextmanager
def objects(repository: Path, most: int = 1 << 30) -> Iterator[ObjectStore]:
    with Directory(str(repository / ".git")) as directory:
        store = ObjectStore(directory, most)
        try:
            yield store
        finally:
            store.close()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = make_repository(tmp_path / "repository", {"large.py": LARGE, "sub/small.py": "x\n"})
    for number in range(5):
        write(top, {"large.py": LARGE.replace(f"line {number} ", "LINE ")})
        git(top, "commit", "-a", "-m", str(number))
    return top


def every_object(repository: Path) -> list[tuple[str, str]]:
    lines = git(repository, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    return [(line.split(" ")[0], line.split(" ")[1]) for line in lines.splitlines()]


@pytest.mark.needs("git")
@pytest.mark.parametrize("packed", [pytest.param((), id="loose"), pytest.param(("gc",), id="deltas by offset"),
    pytest.param(("-c", "repack.useDeltaBaseOffset=false", "repack", "-adf"), id="deltas by id")])  # fmt: skip
def test_reads_every_object(repository: Path, packed: tuple[str, ...]) -> None:
    if packed:
        git(repository, *packed)
    with objects(repository) as store:
        for name, kind in every_object(repository):
            assert object_id(kind, store.read(bytes.fromhex(name), kind)).hex() == name
        with pytest.raises(MissingObjectError):
            store.read(b"\0" * 20, "blob")


@pytest.mark.needs("git")
def test_walks_a_tree(repository: Path) -> None:
    root = bytes.fromhex(git(repository, "rev-parse", "HEAD^{tree}").strip())
    with objects(repository) as store:
        found = {path: entry.object_id.hex() for path, entry in walk_tree(store.read_tree, root)}
    lines = git(repository, "ls-tree", "-r", "HEAD").splitlines()
    assert found == {line.split("\t")[1]: line.split()[2] for line in lines}


@pytest.mark.needs("git")
def test_compares_two_trees(repository: Path) -> None:
    git(repository, "mv", "sub/small.py", "sub.py")
    git(repository, "rm", "large.py")
    write(repository, {"large.py/now a directory": ""})
    git(repository, "add", ".")
    git(repository, "commit", "-m", "moved")
    before, after = (
        bytes.fromhex(git(repository, "rev-parse", f"{name}^{{tree}}").strip()) for name in ("HEAD^", "HEAD")
    )
    with objects(repository) as store:
        changes = tree_changes(store.read_tree, before, store.read_tree, after)
    assert {path: entry is not None for path, entry in changes.items()} == {
        "large.py": True,
        "large.py/now a directory": False,
        "sub/small.py": True,
        "sub.py": False,
    }


def _loose(repository: Path, content: bytes, name: bytes) -> None:
    path = repository / ".git" / "objects" / name.hex()[:2] / name.hex()[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zlib.compress(content))


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "name",
    [".git", ".GIT", "..", ".", "", "a/b", "git~1"],
    ids=["git", "upper case", "up", "here", "none", "slash", "short"],
)
def test_a_tree_with_a_name_that_no_file_may_have_is_refused(repository: Path, name: str) -> None:
    body = b"100644 %s\0" % name.encode() + b"\1" * 20
    tree = object_id("tree", body)
    _loose(repository, b"tree %d\0" % len(body) + body, tree)
    with objects(repository) as store, pytest.raises(GitError, match="refused"):
        store.read_tree("", tree)


@pytest.mark.needs("git")
def test_an_object_with_another_content_is_damaged(repository: Path) -> None:
    name = object_id("blob", b"what was committed")
    _loose(repository, b"blob 5\0other", name)
    with objects(repository) as store, pytest.raises(GitError, match="damaged"):
        store.read(name, "blob")


@pytest.mark.needs("git")
def test_what_unfolds_to_too_much_is_refused(repository: Path) -> None:
    git(repository, "gc")
    names = every_object(repository)
    with objects(repository, 100_000) as store, pytest.raises(GitError, match="too large"):
        [store.read(bytes.fromhex(name), kind) for name, kind in names]


@pytest.mark.needs("git")
def test_a_damaged_pack_is_an_error(repository: Path) -> None:
    git(repository, "gc")
    pack = next((repository / ".git" / "objects" / "pack").glob("*.pack"))
    content, names = pack.read_bytes(), every_object(repository)
    pack.chmod(0o600)
    for size in range(0, len(content), len(content) // 20 + 1):
        pack.write_bytes(
            content[:size] + bytes(byte ^ 255 for byte in content[size : size + 40]) + content[size + 40 :]
        )
        with objects(repository) as store:
            for name, kind in names:
                with suppress(GitError):  # which it is, or the object is whole
                    assert object_id(kind, store.read(bytes.fromhex(name), kind)).hex() == name


@pytest.mark.needs("git")
@pytest.mark.parametrize("part", ["objects", "objects/pack"])
def test_objects_behind_a_link_are_not_read(repository: Path, tmp_path: Path, part: str) -> None:
    git(repository, "gc")
    commit = git(repository, "rev-parse", "HEAD").strip()
    (repository / ".git" / part).rename(tmp_path / "elsewhere")
    (repository / ".git" / part).symlink_to(tmp_path / "elsewhere")
    with objects(repository) as store, pytest.raises(GitError):
        store.read(bytes.fromhex(commit), "commit")


@pytest.mark.needs("git")
def test_objects_of_another_repository_are_not_borrowed(repository: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "--shared", str(repository), str(clone))
    commit = git(clone, "rev-parse", "HEAD").strip()
    with objects(clone) as store, pytest.raises(MissingObjectError, match="borrows objects of another one"):
        store.read(bytes.fromhex(commit), "commit")


def _pack(repository: Path, wanted: bytes, entries: list[bytes], offset: int) -> None:
    """Write a pack by hand, whose index names one object."""
    directory = repository / ".git" / "objects" / "pack"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "pack-1.pack").write_bytes(b"PACK" + struct.pack(">LL", 2, len(entries)) + b"".join(entries))
    fanout = struct.pack(">256L", *(int(number >= wanted[0]) for number in range(256)))
    index = b"\xfftOc\0\0\0\2" + fanout + wanted + bytes(4) + struct.pack(">L", offset)
    (directory / "pack-1.idx").write_bytes(index + bytes(40))


def _header(kind: int, size: int) -> bytes:
    found, size = [kind << 4 | size & 15], size >> 4
    while size:
        found[-1] |= 128
        found.append(size & 127)
        size >>= 7
    return bytes(found)


WANTED = b"\xab" * 20


@pytest.mark.parametrize(
    "most", [pytest.param(128 << 20, id="by what may be read"), pytest.param(1 << 40, id="by what one object may hold")]
)
def test_deltas_that_unfold_to_too_much_are_refused(tmp_path: Path, most: int) -> None:
    size, at = 100 << 20, 12
    zeros, entries = zlib.compress(bytes(size), 9), [_header(1, 0) + zlib.compress(b"")]
    for _ in range(40):
        at += len(entries[-1])
        entries.append(_header(6, size) + bytes(_far(entries)) + zeros)
    _pack(tmp_path, WANTED, entries, at)
    with objects(tmp_path, most) as store, pytest.raises(GitError, match=r"too large|cannot be read"):
        store.read(WANTED, "commit")


def _far(entries: list[bytes]) -> list[int]:
    """The distance to the entry before, as packs write it."""
    distance = len(entries[-1])
    found = [distance & 127]
    while distance := distance >> 7:
        distance -= 1
        found.insert(0, 128 | distance & 127)
    return found


def test_a_delta_of_itself_is_refused(tmp_path: Path) -> None:
    delta = zlib.compress(b"\0\0")
    _pack(tmp_path, WANTED, [_header(7, 2) + WANTED + delta], 12)
    with objects(tmp_path) as store, pytest.raises(GitError, match="cannot be read"):
        store.read(WANTED, "commit")


def test_an_index_that_claims_millions_of_objects_is_not_read_as_a_whole(tmp_path: Path) -> None:
    _pack(tmp_path, WANTED, [_header(1, 0) + zlib.compress(b"")], 12)
    index = tmp_path / ".git/objects/pack/pack-1.idx"
    claimed = struct.pack(">256L", *([0] * 0xAB + [10_000_000] * (256 - 0xAB)))
    index.write_bytes(b"\xfftOc\0\0\0\2" + claimed)
    with index.open("r+b") as file:
        file.truncate(1 << 32)
    with objects(tmp_path) as store, pytest.raises(MissingObjectError):
        store.read(WANTED, "commit")
    with objects(tmp_path, 10 * 512) as store:
        for _ in range(10):
            with suppress(MissingObjectError):
                store.read(WANTED, "commit")
        with pytest.raises(GitError, match="too large"):
            store.read(WANTED, "commit")


@pytest.mark.parametrize("mode", [b"-100644", b"7" * 40, b"1_00644", b"020000"])
def test_a_mode_that_no_file_has_is_refused(tmp_path: Path, mode: bytes) -> None:
    body = mode + b" a.py\0" + b"\1" * 20
    tree = object_id("tree", body)
    _loose(tmp_path, b"tree %d\0" % len(body) + body, tree)
    with objects(tmp_path) as store, pytest.raises(GitError, match="damaged"):
        store.read_tree("", tree)


def test_a_large_file_with_a_small_object_counts_as_large(tmp_path: Path) -> None:
    """What follows the object takes no room on the disk, and time to be read."""
    name = object_id("blob", b"x")
    _loose(tmp_path, b"blob 1\0x", name)
    with (tmp_path / ".git" / "objects" / name.hex()[:2] / name.hex()[2:]).open("r+b") as file:
        file.truncate(1 << 30)
    with objects(tmp_path, 1 << 29) as store, pytest.raises(GitError, match="too large"):
        store.read(name, "blob")


def test_a_delta_of_many_small_parts_is_refused(tmp_path: Path) -> None:
    """It would take a minute, and gigabytes, to make a few megabytes of it."""
    parts = 10_000_000
    delta = b"\x14" + bytes([*_size(2 * parts)]) + b"\x90\x02" * parts  # two bytes from the beginning
    base = _header(1, 20) + zlib.compress(bytes(20))
    entries = [base, _header(6, len(delta)) + bytes([len(base)]) + zlib.compress(delta)]
    _pack(tmp_path, WANTED, entries, 12 + len(base))
    with objects(tmp_path, 128 << 20) as store, pytest.raises(GitError, match="too large"):
        store.read(WANTED, "commit")


def _size(number: int) -> Iterator[int]:
    while number > 127:
        yield number & 127 | 128
        number >>= 7
    yield number


def test_trees_in_trees_without_end_are_refused(tmp_path: Path) -> None:
    """A file system has no such paths, a repository has them in a few bytes for each level."""
    body = b"100644 x\0" + b"\1" * 20
    for _ in range(5000):
        tree = object_id("tree", body)
        _loose(tmp_path, b"tree %d\0" % len(body) + body, tree)
        body = b"40000 d\0" + tree
    with objects(tmp_path) as store, pytest.raises(GitError, match="too long"):
        list(walk_tree(store.read_tree, tree))


@pytest.mark.needs("git")
def test_many_packs_leave_descriptors_to_others(repository: Path) -> None:
    git(repository, "gc")
    names = every_object(repository)
    directory = repository / ".git" / "objects" / "pack"
    for suffix in ("idx", "pack"):
        content = next(directory.glob(f"*.{suffix}")).read_bytes()
        for number in range(200):
            (directory / f"pack-{number}.{suffix}").write_bytes(content)
    before = len([*Path("/proc/self/fd").iterdir()])
    with objects(repository) as store:
        for name, kind in names:
            store.read(bytes.fromhex(name), kind)
        with pytest.raises(MissingObjectError):
            store.read(WANTED, "commit")
        assert len([*Path("/proc/self/fd").iterdir()]) - before < 100


@pytest.mark.needs("git")
def test_nothing_is_read_when_it_is_late(repository: Path) -> None:
    commit = bytes.fromhex(git(repository, "rev-parse", "HEAD").strip())
    with Directory(str(repository / ".git")) as directory, pytest.raises(LateError):
        ObjectStore(directory, 1 << 30, lambda: True).read(commit, "commit")
