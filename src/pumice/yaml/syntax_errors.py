"""Explain syntax errors of the YAML parser.

libyaml describes its own state ("did not find expected key while parsing a block mapping"); a user wants to know what
is wrong, where, and what to do. The parser in Python words the same errors differently; the patterns cover both.
"""

from __future__ import annotations

import re
from typing import Final

import yaml

from pumice.model.problem import Position, Problem
from pumice.yaml.source import line_and_column

_QUOTE_HINT: Final = "put the text in quotes"
_INDENT_HINT: Final = "keys of one mapping, and items of one list, must start in the same column"

# What the parser was reading, in a user's words; the message appends the line where that begins.
_CONTEXTS: Final = (
    (r"block mapping", "the mapping"),
    (r"block collection|block sequence", "the list"),
    (r"flow mapping", "the mapping in { }"),
    (r"flow sequence", "the list in [ ]"),
    (r"quoted scalar", "the quoted text"),
    (r"block scalar", "the text block"),
    (r"plain scalar", "the value"),
    (r"simple key", "the key"),
    (r"anchor", "the anchor"),
    (r"alias", "the alias"),
    (r"tag", "the tag"),
    (r"directive", "the directive"),
)

# Pattern of the parser's message, message, hint.
_MESSAGES: Final = (
    (r"tab character|character '\\t'", "a tab is used for indentation", "indent with spaces"),
    (
        r"mapping values are not allowed",
        "a ':' where no key is allowed",
        "check the indentation, or quote a value that contains ': '",
    ),
    (
        r"could not find expected ':'",
        "could not find the ':' that belongs after a key",
        "write it as key: value, with a space after the ':'",
    ),
    (
        r"(sequence|block) entries are not allowed",
        "a list item where none is allowed",
        "start the list on a line of its own, below its key",
    ),
    (r"mapping keys are not allowed", "a key where none is allowed", _INDENT_HINT),
    (r"expected '-' indicator", "neither an item of the list ('- ...') nor its end", _INDENT_HINT),
    (r"did not find expected key|expected <block end>", "the indentation fits no key before it", _INDENT_HINT),
    (r"expected ',' or '\]'", "expected ',' or ']'", "close the list with ], or separate its items with commas"),
    (r"expected ',' or '\}'", "expected ',' or '}'", "close the mapping with }, or separate its entries with commas"),
    (r"cannot start any token", "a value cannot begin with this character", _QUOTE_HINT),
    (r"unexpected end of stream", "the file ends before the closing quote", "close the quote"),
    (r"unexpected document (indicator|separator)", "a new document begins before the closing quote", "close the quote"),
    (r"unknown escape character", "no such escape in double quotes", r"write \\ for a backslash, or use single quotes"),
    (
        r"hexdecimal|hexadecimal",
        "the escape needs hexadecimal digits",
        r"write \\ for a backslash, or use single quotes",
    ),
    (r"invalid Unicode character escape", "the escape is not a character", "write the character itself"),
    (r"expected node content|expected the node content", "a value is missing here", _QUOTE_HINT),
    (r"undefined tag handle|undefined tag", "the tag is not accepted", "remove it"),
    (r"expected alphabetic or numeric character", "a name must follow & and *", _QUOTE_HINT),
    (
        r"indentation indicator equal to 0|indentation indicator in the range",
        "the indentation after | or > must be 1 to 9",
        "",
    ),
    (
        r"comment or line break|chomping or indentation",
        "only a comment may follow here",
        "start the text on the next line",
    ),
    (r"<document start>", "text after the end of the document", "separate documents with a line ---"),
    (r"unknown directive name", "no such % directive", _QUOTE_HINT),
    (r"found unexpected ':'", "a ':' inside a value in [ ] or { }", _QUOTE_HINT),
    (r"incompatible YAML", "this version of YAML is not supported", "remove the %YAML line"),
)


def explain(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """Return the problem for an error of the parser."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return _unreadable(error, text, file)
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    message, hint = _in_plain_words(error.problem or "broken YAML")
    character = _character(text, line, column)
    if character == "\t" and "token" in (error.problem or ""):
        message, hint = "a tab is used for indentation", "indent with spaces"
    elif character is None and "node content" in (error.problem or ""):
        message, hint = "the file ends where a value must follow", "close every [ and { that is open"
    return Problem(message + _context(error, line), hint, Position(file, line, column))


def _in_plain_words(problem: str) -> tuple[str, str]:
    for pattern, message, hint in _MESSAGES:
        if re.search(pattern, problem):
            return message, hint
    return problem, ""


def _context(error: yaml.MarkedYAMLError, line: int) -> str:
    if error.context_mark is None or error.context is None:
        return ""
    for pattern, name in _CONTEXTS:
        if re.search(pattern, error.context):
            began = error.context_mark.line + 1
            where = "here" if began == line else f"on line {began}"
            return f" (while reading {name} that begins {where})"
    return ""


def _character(text: str, line: int, column: int) -> str | None:
    """Return the character at a position, empty at the end of a line; None at the end of the text."""
    lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", text, maxsplit=line)
    found = lines[line - 1][column - 1 : column] if line <= len(lines) else ""
    return found or ("" if line < len(lines) else None)


def _unreadable(error: yaml.YAMLError, text: str, file: str) -> Problem:
    # `source` has checked the characters, so this is a safety net.
    position = getattr(error, "position", 0)
    index = position if isinstance(position, int) and 0 <= position <= len(text) else 0
    return Problem("a character that is not allowed in YAML", where=Position(file, *line_and_column(text, index)))
