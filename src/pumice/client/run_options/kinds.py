"""The kinds of options: each reads a value of its kind, written as text or as a value of Python, into its type.

Flags, keyword arguments and TOML files all come through here, so that a value is parsed once and refused in one way.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from pumice.model.duration import Duration, DurationError
from pumice.model.problem import Position
from pumice.model.quantity import Quantity
from pumice.model.scalars import kind_of
from pumice.model.syntax import env_name_error
from pumice.store.never_shared import is_never_shared, why_not
from pumice.store.options import Kill, Publish
from pumice.store.run_errors import InvalidOption
from pumice.store.settings import ExtraMount

LAST_PORT: Final = 65535
Pathlike: TypeAlias = str | os.PathLike[str]
Read: TypeAlias = Callable[[Any, "Source"], Any]
T = TypeVar("T")


class Source(Struct, frozen=True):
    """Where a value is written: an option, in a TOML file or not. Relative paths begin at `base`."""

    where: Position
    base: Path = field(default_factory=Path)
    environ: Mapping[str, str] = field(default_factory=dict)
    secret: bool = False  # no error shows the value

    def refuse(self, value: object, accepted: str, hint: str = "") -> InvalidOption:
        """Return the error of a value that is not accepted."""
        if self.secret:
            return self.error(f"must be {accepted}, found {kind_of(value)}", hint)
        shown = value if isinstance(value, str) else repr(value)
        return self.error(f"{shown}: must be {accepted}", hint)

    def error(self, message: str, hint: str = "") -> InvalidOption:
        return InvalidOption(message, hint, self.where)


class Kind(Struct, frozen=True):
    """`read` returns the value in its type. Raises InvalidOption."""

    read: Read
    action: str = "store"  # of its flag, as argparse names it
    type: Callable[[str], Any] = str  # of its flag, likewise
    choices: tuple[str, ...] = ()


def exists(path: Path) -> bool:
    """Return whether a path leads to something. Raises OSError if that cannot be known.

    `Path.exists` of Python 3.14 answers no then, and the user would look for a file that is there.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    return True


def _text(value: object, source: Source) -> str:
    if not isinstance(value, str | os.PathLike):
        raise source.refuse(value, "a text")
    return str(os.fspath(value))


def checked(accepted: str, is_good: Callable[[Any], object], make: Callable[[Any], Any] = lambda value: value) -> Read:
    """Read a value that is good as it is, or after `make`."""

    def read(value: object, source: Source) -> Any:
        if not is_good(value):
            raise source.refuse(value, accepted)
        return make(value)

    return read


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_count(value: object) -> bool:
    return not isinstance(value, bool) and re.fullmatch("[1-9][0-9]{0,6}", str(value)) is not None


def size(value: object, source: Source) -> int:
    """`10Gi`, as a quantity of Kubernetes, or a number of bytes."""
    accepted = "a size such as 10Gi"
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise source.refuse(value, accepted)
    try:
        found = Quantity.parse(str(value)).value()
    except ValueError as error:
        raise source.refuse(value, accepted) from error
    if found <= 0:
        raise source.refuse(value, "more than 0")
    return found


def seconds(value: object, source: Source) -> float:
    """A number of seconds, or a text such as `10m`."""
    if isinstance(value, dt.timedelta):
        value = value.total_seconds()
    if isinstance(value, str):
        try:
            found = Duration.parse(value).seconds
        except DurationError as error:
            # Not isdecimal, which accepts the digits of all scripts.
            hint = f"did you mean {value}s?" if re.fullmatch("[0-9]{1,9}", value) else ""
            raise source.error(f"{value}: {error.message}", hint) from error
    elif isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        raise source.refuse(value, "a number of seconds, or a text such as 10m")
    else:
        found = value
    if found < 0:
        raise source.refuse(value, "0 or more")
    return found


def read_time(option: str, value: object) -> float:
    """Return the seconds of an argument. Raises InvalidOption."""
    return seconds(value, Source(Position(option=option)))


def port(value: object, option: str) -> int:
    """Return a port that an argument gives. Raises InvalidOption."""
    if not isinstance(value, int) or not 0 < value <= LAST_PORT:
        raise Source(Position(option=option)).refuse(value, f"a port from 1 to {LAST_PORT}")
    return value


def _positive_seconds(value: object, source: Source) -> float:
    found = seconds(value, source)
    if found <= 0:
        raise source.refuse(value, "more than 0")
    return found


def mount(text: str, source: Source) -> ExtraMount:
    """`PATH` or `SOURCE:TARGET`, with `:ro` or `:rw` at the end; a colon may be part of a path that exists."""
    base, path, mode = source.base, text, "rw"
    before, mark, last = text.rpartition(":")
    if last in ("ro", "rw") and mark and not exists(base / text):
        path, mode = before, last
    origin, target = path, ""
    before, mark, last = path.rpartition(":")
    if mark and not exists(base / path):
        origin, target = before, last
        if not target.startswith("/"):
            forms = "PATH, PATH:ro, SOURCE:TARGET or SOURCE:TARGET:ro, with a TARGET such as /data"
            raise source.refuse(text, forms, f"{base / text} does not exist")
    if not origin or not exists(base / origin):
        raise source.error(f"{text}: no such file or directory: {base / origin}")
    if is_never_shared(base / origin):
        raise source.error(f"{text}: {why_not(base / origin)}", "name the directory in it that the job needs")
    return ExtraMount((base / origin).absolute(), mode == "ro", Path(os.path.normpath(target)) if target else None)


def _host_prefix(text: str, source: Source) -> Path:
    if not text:
        raise source.error("must be a path")
    return source.base / text


def _kill(text: str, source: Source) -> Kill:
    pod, mark, moment = text.rpartition("@")
    if not mark or not pod:
        raise source.refuse(text, "TASK-INDEX@TIME, such as worker-0@30s")
    return Kill(pod, named(pod, lambda: seconds(moment, source)))


def _publish(text: str, source: Source) -> Publish:
    """`TASK-INDEX:PORT`, or `PORT` alone for a job of one pod, both with `:LOCAL`."""
    match = re.fullmatch(r"(?:(?![0-9]+:)([^:]+):)?([0-9]{1,5})(?::([0-9]{1,5}))?", text, re.ASCII)
    port, local = (0, None) if match is None else (int(match[2]), match[3])
    if match is None or not 0 < port <= LAST_PORT or (local and not 0 < int(local) <= LAST_PORT):
        raise source.refuse(text, f"TASK-INDEX:PORT[:LOCAL] or PORT[:LOCAL], with ports from 1 to {LAST_PORT}")
    return Publish(match[1] or "", port, int(local or 0))


def _published(value: object, source: Source) -> tuple[Publish, ...]:
    """Raises InvalidOption for two with the same port of this machine."""
    ports: tuple[Publish, ...] = _several(_publish).read(value, source)
    others: dict[int, Publish] = {}
    for each in ports:
        if each.local and others.setdefault(each.local, each) is not each:
            raise source.error(f"{others[each.local]} and {each} have the same port of this machine", "choose another")
    return ports


def _image(name: str, value: object, source: Source) -> Path:
    if value in ("", None):
        # An empty path would be the working directory.
        raise source.refuse(f"{name}=", "NAME=PATH")
    path = (source.base / named(name, lambda: _text(value, source))).absolute()
    if not exists(path):
        hint = "PATH is a directory with the image's files, or an archive made by `docker save`"
        raise source.error(f"{name}={path}: no such file or directory", hint)
    return path


def command(text: str, source: Source) -> tuple[str, ...]:
    """Split a command line as a shell does."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise source.error(f"{text}: {str(error).lower()}") from error
    if not words:
        raise source.error('must be a command, such as "python train.py"')
    return words


def _reference(name: str, value: object, source: Source) -> str:
    if value in ("", None):
        raise source.refuse(f"{name}=", "NAME=REF")
    return named(name, lambda: _text(value, source))


def _code(value: object, source: Source) -> Path:
    """A directory; that of the Job file if the value is true, which is for the reader of all options to say."""
    if value is True or value == "":
        return source.base
    path = (source.base / _text(value, source)).absolute()
    if not path.is_dir():
        raise source.error(f"{path}: {'is not a directory' if exists(path) else 'no such directory'}")
    return path


def _entrypoint(name: str, value: object, source: Source) -> tuple[str, ...]:
    return named(name, lambda: command(_text(value, source), source))


def _replicas(name: str, value: object, source: Source) -> int:
    # Not isdecimal, which accepts the digits of all scripts.
    if isinstance(value, bool) or not re.fullmatch("[0-9]{1,6}", str(value)):
        raise source.error(f"{name}={value}: N must be a number, 0 or more")
    return int(str(value))


def _variable(name: str, value: object, source: Source) -> str | None:
    """Return the value; None for one that is the caller's own variable."""
    if error := env_name_error(name):
        raise source.error(f"{name}: the name {error}")
    if value is None:
        if name not in source.environ:
            raise source.error(f"{name}: is not set here", f"write {name}=VALUE, or export it")
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return named(name, lambda: _text(value, source))


def named(name: str, read: Callable[[], T]) -> T:
    """Read a part of a value; an error says which part."""
    try:
        return read()
    except InvalidOption as error:
        raise InvalidOption(f"{name}: {error.problem.message}", error.problem.advice, error.problem.where) from error


def _texts(value: object, source: Source, accepted: str) -> list[str]:
    if isinstance(value, str | os.PathLike):
        return [_text(value, source)]
    if isinstance(value, bytes | Mapping) or not isinstance(value, Iterable):
        raise source.refuse(value, accepted)
    return [_text(each, source) for each in value]


def _words(value: object, source: Source) -> tuple[str, ...]:
    """The arguments of a program: a list, whose order and repetitions count."""
    accepted = 'a list of texts, such as ["--lr", "0.1"]'
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise source.refuse(value, accepted)
    words = [str(each) if type(each) in (int, float) else each for each in value]
    for each in words:
        if not isinstance(each, str | os.PathLike):
            raise source.refuse(each, accepted)
        if "\0" in os.fspath(each):
            raise source.error("contains a zero byte, which no argument can")
    return tuple(map(os.fspath, words))


def _several(read: Callable[[str, Source], Any]) -> Kind:
    """One text or several; a flag that may be repeated."""

    def read_all(value: object, source: Source) -> tuple[Any, ...]:
        texts = _texts(value, source, "a text, or a list of texts")
        return tuple(dict.fromkeys(read(text, source) for text in texts))

    return Kind(read_all, "append")


def _pairs(form: str, mapping: str, read: Callable[[str, Any, Source], Any], *, alone: bool = False) -> Kind:
    """A mapping, or texts `NAME=VALUE`; `alone`: a name without a value has a meaning, too, and values are secret."""

    def read_all(value: object, source: Source) -> dict[str, Any]:
        source = replace(source, secret=alone)
        if isinstance(value, Mapping):
            if alone and (empty := [name for name, each in value.items() if each is None]):
                raise source.error(f"{empty[0]}: None: must be a text")
            return {str(name): read(str(name), each, source) for name, each in value.items()}
        found = {}
        for text in _texts(value, source, f"a mapping such as {mapping}"):
            name, mark, each = text.partition("=")
            if not name or not (mark or alone):
                raise source.refuse(text, form)
            found[name] = read(name, each if mark else None, source)
        return found

    return Kind(read_all, "append")


def choice(words: Iterable[str], make: Callable[[str], str] = str) -> Kind:
    words = tuple(map(str, words))
    return Kind(checked(f"one of {', '.join(words)}", lambda value: value in words, make), choices=words)


SWITCH: Final = Kind(checked("true or false", lambda value: isinstance(value, bool)), "store_true")
TEXT: Final = Kind(_text)
TEXTS: Final = _several(lambda text, _source: text)
WORDS: Final = Kind(_words)
WHOLE_NUMBER: Final = Kind(checked("a whole number", is_whole), type=int)
COUNT: Final = Kind(checked("a number, 1 or more", _is_count, lambda value: int(str(value))))
SIZE: Final = Kind(size)
TIME: Final = Kind(seconds)
POSITIVE_TIME: Final = Kind(_positive_seconds)
MOUNTS: Final = _several(mount)
HOST_PREFIXES: Final = _several(_host_prefix)
KILLS: Final = _several(_kill)
PUBLISHED: Final = Kind(_published, "append")
IMAGES: Final = _pairs("NAME=PATH", '{"NAME": "PATH"}', _image)
REFERENCES: Final = _pairs("NAME=REF", '{"NAME": "REF"}', _reference)
CODE: Final = Kind(_code, "optional")
COMMANDS: Final = _pairs('IMAGE="COMMAND"', '{"IMAGE": "COMMAND"}', _entrypoint)
REPLICAS: Final = _pairs("TASK=N", '{"TASK": N}', _replicas)
VARIABLES: Final = _pairs("NAME=VALUE or NAME", '{"NAME": "VALUE"}', _variable, alone=True)
