"""Records what a program does to files, and replays it as a disk would be after a power failure.

What a sync has covered is there. Of the rest, any part may be: data in blocks, names of a directory. Data and names
are covered apart: fsync of a file keeps its content, fsync of a directory keeps its names, and nothing else.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

_ROOT: Final = 0


@dataclass(frozen=True, slots=True)
class Operation:
    """`nodes` are the files or directories that a sync has to cover for it to last."""

    kind: str  # write, truncate, name, rename, remove; sync; done
    nodes: tuple[int, ...] = ()
    details: tuple[Any, ...] = ()


@dataclass(slots=True)
class RecordedDisk:
    """Files and directories below `top` have numbers, which stay when they are renamed."""

    top: Path
    operations: list[Operation] = field(default_factory=list)
    _nodes: dict[int, int] = field(default_factory=dict)  # our numbers, by inode
    _last: int = _ROOT - 1

    def done(self, what: str) -> None:
        """Note that a promise was made."""
        self.operations.append(Operation("done", (), (what,)))

    @contextmanager
    def recording(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self._number(self.top.stat())
        with monkeypatch.context() as patch:
            for name in ("open", "write", "pwrite", "ftruncate", "truncate", "fsync", "fdatasync"):
                patch.setattr(os, name, getattr(self, f"_{name}")(getattr(os, name)))
            for name in ("mkdir", "symlink", "rename", "unlink", "rmdir"):
                patch.setattr(os, name, getattr(self, f"_{name}")(getattr(os, name)))
            yield

    def _number(self, found: os.stat_result) -> int:
        if found.st_ino not in self._nodes:
            self._fresh(found)
        return self._nodes[found.st_ino]

    def _of(self, path: Any) -> int:
        return self._number(os.lstat(path))

    def _entry(self, path: Any) -> tuple[int, str]:
        where = Path(path).absolute()
        return self._of(where.parent), where.name

    def _add(self, kind: str, nodes: Sequence[int], *details: Any) -> None:
        self.operations.append(Operation(kind, tuple(nodes), details))

    def _is_ours(self, path: Any) -> bool:
        return not isinstance(path, int) and Path(path).absolute().is_relative_to(self.top)

    def _open(self, real: Any) -> Any:
        def opened(path: Any, flags: int, *more: Any, **named: Any) -> int:
            is_new = self._is_ours(path) and not os.path.lexists(path)
            descriptor: int = real(path, flags, *more, **named)
            if is_new:
                directory, name = self._entry(path)
                self._fresh(os.fstat(descriptor))
                self._add("name", [directory], name, self._number(os.fstat(descriptor)), "file")
            elif self._is_ours(path) and flags & os.O_TRUNC:
                self._add("truncate", [self._number(os.fstat(descriptor))], 0)
            return descriptor

        return opened

    def _fresh(self, found: os.stat_result) -> None:
        """Give a number of its own to a new file, even if it has the inode of one that is gone."""
        self._nodes[found.st_ino] = self._last = self._last + 1

    def _known(self, descriptor: int) -> int | None:
        return self._nodes.get(os.fstat(descriptor).st_ino)

    def _write(self, real: Any) -> Any:
        def written(descriptor: int, data: Any) -> int:
            node = self._known(descriptor)
            begin = os.fstat(descriptor).st_size if node is not None else 0
            count: int = real(descriptor, data)
            if node is not None:
                at = os.lseek(descriptor, 0, os.SEEK_CUR) - count
                self._add("write", [node], min(begin, at) if at < begin else begin, bytes(data)[:count])
            return count

        return written

    def _pwrite(self, real: Any) -> Any:
        def written(descriptor: int, data: Any, offset: int) -> int:
            count: int = real(descriptor, data, offset)
            if (node := self._known(descriptor)) is not None:
                self._add("write", [node], offset, bytes(data)[:count])
            return count

        return written

    def _ftruncate(self, real: Any) -> Any:
        def truncated(descriptor: int, size: int) -> None:
            real(descriptor, size)
            if (node := self._known(descriptor)) is not None:
                self._add("truncate", [node], size)

        return truncated

    def _truncate(self, real: Any) -> Any:
        def truncated(path: Any, size: int) -> None:
            real(path, size)
            if self._is_ours(path):
                self._add("truncate", [self._of(path)], size)

        return truncated

    def _fsync(self, real: Any) -> Any:
        def synced(descriptor: int) -> None:
            real(descriptor)
            if (node := self._known(descriptor)) is not None:
                self._add("sync", [node])

        return synced

    _fdatasync = _fsync

    def _mkdir(self, real: Any) -> Any:
        def made(path: Any, *more: Any, **named: Any) -> None:
            real(path, *more, **named)
            if self._is_ours(path):
                directory, name = self._entry(path)
                self._fresh(os.lstat(path))
                self._add("name", [directory], name, self._of(path), "directory")

        return made

    def _symlink(self, real: Any) -> Any:
        def made(target: Any, path: Any, *more: Any, **named: Any) -> None:
            real(target, path, *more, **named)
            if self._is_ours(path):
                directory, name = self._entry(path)
                self._fresh(os.lstat(path))
                self._add("name", [directory], name, self._of(path), f"link {os.fspath(target)}")

        return made

    def _rename(self, real: Any) -> Any:
        def renamed(source: Any, target: Any, *more: Any, **named: Any) -> None:
            ours = self._is_ours(source)
            if ours:
                (old, name), (new, other) = self._entry(source), self._entry(target)
                node = self._of(source)
            real(source, target, *more, **named)
            if ours:
                self._add("rename", [new], old, name, other, node)

        return renamed

    def _unlink(self, real: Any) -> Any:
        def removed(path: Any, *more: Any, **named: Any) -> None:
            ours = self._is_ours(path) and os.path.lexists(path)
            entry = self._entry(path) if ours else None
            real(path, *more, **named)
            if entry is not None:
                self._add("remove", [entry[0]], entry[1])

        return removed

    _rmdir = _unlink

    # --- after the power failure ----------------------------------------------------------------------------------

    def promises(self, end: int) -> set[str]:
        return {each.details[0] for each in self.operations[:end] if each.kind == "done"}

    def survivors(self, end: int, draw: random.Random, share: float) -> list[Operation]:
        """Return the operations before `end` that a sync has covered, and a share of the others."""
        covered: set[int] = set()
        found: list[Operation] = []
        for each in reversed(self.operations[:end]):
            if each.kind == "sync":
                covered.update(each.nodes)
            elif each.kind != "done" and (set(each.nodes) & covered or draw.random() < share):
                found.append(each)
        return found[::-1]


def replay(operations: Sequence[Operation], top: Path) -> None:
    """Build the files that the operations leave."""
    contents: dict[int, bytearray] = {}
    names: dict[int, dict[str, tuple[int, str]]] = {_ROOT: {}}
    for each in operations:
        if each.kind == "write":
            offset, data = each.details
            content = contents.setdefault(each.nodes[0], bytearray())
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data
        elif each.kind == "truncate":
            content = contents.setdefault(each.nodes[0], bytearray())
            size = each.details[0]
            contents[each.nodes[0]] = content[:size] + bytes(max(0, size - len(content)))
        elif each.kind == "name":
            name, node, kind = each.details
            names.setdefault(each.nodes[0], {})[name] = (node, kind)
        elif each.kind == "remove":
            names.setdefault(each.nodes[0], {}).pop(each.details[0], None)
        elif each.kind == "rename":
            old, name, other, node = each.details
            moved = names.setdefault(old, {}).pop(name, None)
            if moved is not None and moved[0] == node:
                names.setdefault(each.nodes[0], {})[other] = moved
    _build(_ROOT, top, names, contents)


def _build(
    node: int, directory: Path, names: dict[int, dict[str, tuple[int, str]]], contents: dict[int, bytearray]
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, (child, kind) in names.get(node, {}).items():
        if kind == "directory":
            _build(child, directory / name, names, contents)
        elif kind == "file":
            (directory / name).write_bytes(contents.get(child, b""))
        else:
            (directory / name).symlink_to(kind.removeprefix("link "))
