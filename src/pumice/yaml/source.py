"""Read the text of a file that a user names.

Nothing raises for any path or content: errors are returned as problems with their position. At most `MAX_BYTES` are
read, so that an endless device or a huge file costs neither time nor memory.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
from typing import Final

from pumice.model.problem import Position, Problem
from pumice.model.suggestions import nearest

STDIN: Final = "-"
# Far above the largest object that an API server stores (about 1.5 MiB), and quick to read.
MAX_BYTES: Final = 4 * 1024 * 1024

# Patterns, compiled when they are first used.
_LINE_BREAK: Final = "\r\n|[\r\n\x85\u2028\u2029]"
_NOT_ALLOWED: Final = "[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
# libyaml compares each of these lines with all others; no file needs more than a few, because custom tags are refused.
_TAG_DIRECTIVE: Final = "(?:\\A|[\r\n\x85\u2028\u2029])(?=%TAG)"
_MAX_TAG_DIRECTIVES: Final = 100
# Longer marks first: that of UTF-32 begins with that of UTF-16.
_BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8", "UTF-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)


def read_text(file: str) -> str | Problem:
    """Return the decoded text of a file (`-`: standard input), or the problem with it."""
    content = _read_bytes(file)
    if isinstance(content, Problem):
        return content
    if len(content) > MAX_BYTES:
        return _too_large(file, content)
    text = _decode(file, content)
    if isinstance(text, Problem):
        return text
    if odd := re.search(_NOT_ALLOWED, text):
        return _forbidden_character(file, text, odd.start())
    return _too_many_tags(file, text) or text


def line_and_column(text: str, index: int) -> tuple[int, int]:
    """Return line and column, from 1, of the character at `index`."""
    line, start = 1, 0
    for found in re.finditer(_LINE_BREAK, text[:index]):
        line, start = line + 1, found.end()
    return line, index - start + 1


def _read_bytes(file: str) -> bytes | Problem:
    try:
        if file == STDIN:
            return sys.stdin.buffer.read(MAX_BYTES + 1)
        with open(file, "rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        return _unreadable(file, error)
    except (ValueError, AttributeError):
        # A name with a NUL byte, or a closed standard input.
        reason = "standard input is closed" if file == STDIN else "not the name of a file"
        return Problem(reason, where=Position(file))


def _unreadable(file: str, error: OSError) -> Problem:
    match error:
        case FileNotFoundError():
            return Problem("no such file", _missing_hint(file), Position(file))
        case IsADirectoryError():
            return Problem("is a directory, not a file", "name the YAML file in it", Position(file))
        case PermissionError():
            return Problem("permission denied", "check the permissions of the file and its directory", Position(file))
        case _:
            return Problem(f"cannot be read: {(error.strerror or str(error)).lower()}", where=Position(file))


def _missing_hint(file: str) -> str:
    if os.path.islink(file):
        return f"it is a link to {os.readlink(file)}, which does not exist"
    directory, name = os.path.split(file)
    try:
        names = sorted(each for each in os.listdir(directory or ".") if each.endswith((".yaml", ".yml", ".json")))
    except FileNotFoundError:
        return f"the directory {directory} does not exist either"
    except OSError:
        names = []
    found = nearest(name, names)
    return f"did you mean {os.path.join(directory, found)}?" if found else "check the spelling"


def _too_large(file: str, content: bytes) -> Problem:
    head = content[:MAX_BYTES].decode("utf-8", errors="replace")
    message = f"larger than {MAX_BYTES // 1024 // 1024} MiB: reading stops here"
    return Problem(message, "split the file", Position(file, *line_and_column(head, len(head))))


def _decode(file: str, content: bytes) -> str | Problem:
    codec, name, skipped = "utf-8", "UTF-8", 0
    for mark, mark_codec, mark_name in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            codec, name, skipped = mark_codec, mark_name, len(mark)
            break
    try:
        return content[skipped:].decode(codec)
    except UnicodeDecodeError as error:
        head = content[skipped : skipped + error.start].decode(codec)
        offset = skipped + error.start
        message = f"byte 0x{content[offset]:02x} at offset {offset} is not {name}"
        return Problem(message, "save the file as UTF-8", Position(file, *line_and_column(head, len(head))))


def _forbidden_character(file: str, text: str, index: int) -> Problem:
    code = ord(text[index])
    name = "a NUL byte" if code == 0 else f"the control character U+{code:04X}"
    hint = 'remove it; inside double quotes it can be written as an escape, such as "\\x1b"'
    if code == 0:
        hint = "this is not a text file, or it was cut off or damaged"
    return Problem(f"{name} is not allowed in YAML", hint, Position(file, *line_and_column(text, index)))


def _too_many_tags(file: str, text: str) -> Problem | None:
    for count, found in enumerate(re.finditer(_TAG_DIRECTIVE, text) if "%TAG" in text else ()):
        if count == _MAX_TAG_DIRECTIVES:
            message = f"more than {_MAX_TAG_DIRECTIVES} %TAG lines"
            return Problem(
                message, "remove them: such tags are not accepted", Position(file, *line_and_column(text, found.end()))
            )
    return None
