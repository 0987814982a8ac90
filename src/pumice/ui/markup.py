"""Escapes what templates print. Only this module makes `Markup`.

Control and direction characters are drawn as small tags, so that a name or a line cannot look like another; within an
attribute they are words in brackets. Which of the two an expression needs follows from where it stands in the template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from jinja2 import TemplateSyntaxError
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from markupsafe import Markup, escape

from pumice.model.text import HIDDEN_CHARACTERS

HIDDEN: Final = re.compile(f"([\x00-\x08\x0b-\x1f{HIDDEN_CHARACTERS}])")  # but tab and newline
CONTROL_NAMES: Final = (
    *("NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "TAB", "LF", "VT", "FF", "CR", "SO", "SI"),
    *("DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US"),
)
_TAG: Final = Markup('<span class="ctl">{}</span>')
_PLAIN: Final = frozenset({"title", "option", "text"})  # elements that hold text only
_ANYWHERE: Final = frozenset({"block", "call", "include", "macro"})  # begin elsewhere, or go on there
_LINE_BREAK: Final = re.compile(r"\s*\n\s*")
_TAG_START: Final = re.compile(r"<(/?)([a-zA-Z0-9]*)")
_IN_TAG: Final = re.compile(r"""(>)|=(["'])|(=)""")


def character_name(character: str) -> str:
    """Return what is drawn instead of a hidden character: `ESC`, `U+202E`."""
    code = ord(character)
    if code < len(CONTROL_NAMES):
        return CONTROL_NAMES[code]
    return "DEL" if character == "\x7f" else f"U+{code:04X}"


def text_markup(value: object) -> Markup:
    """Return a value as the text of an element; None is nothing."""
    if isinstance(value, Markup):
        return value
    text = "" if value is None else str(value)
    if not HIDDEN.search(text):
        return escape(text)
    pieces = HIDDEN.split(text)  # every second one is a hidden character
    return Markup("").join(_TAG.format(character_name(each)) if at % 2 else each for at, each in enumerate(pieces))


def attribute_text(value: object) -> str | int:
    """Return a value for an attribute or a title, with hidden characters as `[ESC]`."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, int):
        return value
    if isinstance(value, Markup):
        raise TypeError("markup cannot be the value of an attribute")
    return HIDDEN.sub(lambda match: f"[{character_name(match[0])}]", str(value))


class HtmlContext(Extension):
    """Adds the right escape to each expression of a template, and leaves out the line breaks between elements.

    An expression in a tag must stand within the quotes of an attribute, and every attribute is quoted.
    """

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        environment.filters["text_markup"] = text_markup
        environment.filters["attribute_text"] = attribute_text

    def filter_stream(self, stream: TokenStream) -> Iterable[Token]:
        html, before, line = _Html(stream), "", 1
        for token in stream:
            line = token.lineno
            if token.type == "data":
                yield Token(line, "data", html.feed(token.value, line))
            elif token.type == "variable_begin":
                yield from (token, Token(line, "lparen", "("))
            elif token.type == "variable_end":
                yield from (Token(line, "rparen", ")"), Token(line, "pipe", "|"))
                yield from (Token(line, "name", html.escape(line)), token)
            else:
                if token.type == "name" and before == "block_begin" and token.value in _ANYWHERE:
                    html.check_text(f"{token.value}: must not begin in a tag", line)
                yield token
            before = token.type
        html.check_text("the template ends in a tag", line)


class _Html:
    """Where in the HTML of a template its next expression stands."""

    def __init__(self, stream: TokenStream) -> None:
        self._stream = stream
        self._element = ""  # that was opened last
        self._in_tag = False
        self._quote = ""

    def feed(self, text: str, line: int) -> str:
        """Read the literal text before an expression; return it without line breaks."""
        return "".join(self._pieces(text, line))

    def _pieces(self, text: str, line: int) -> Iterator[str]:
        at = 0
        while at < len(text):
            begin = at
            if self._quote:
                end = text.find(self._quote, at)
                at = len(text) if end < 0 else end + 1
                self._quote = self._quote if end < 0 else ""
                yield _LINE_BREAK.sub("", text[begin:at])
            elif self._in_tag:
                match = _IN_TAG.search(text, at)
                at = len(text) if match is None else match.end()
                if match is not None and match[3]:
                    raise TemplateSyntaxError("an attribute must be quoted", line, self._stream.name)
                self._in_tag = match is None or not match[1]
                self._quote = match[2] or "" if match is not None else ""
                yield _LINE_BREAK.sub(" ", text[begin:at])
            else:
                match = _TAG_START.search(text, at)
                at = len(text) if match is None else match.end()
                if match is not None:
                    self._in_tag, self._element = True, "" if match[1] else match[2].lower()
                yield _LINE_BREAK.sub("", text[begin:at])

    def check_text(self, message: str, line: int) -> None:
        """Raise an error within a tag: what stands there begins or goes on elsewhere, as text."""
        if self._in_tag:
            raise TemplateSyntaxError(message, line, self._stream.name)

    def escape(self, line: int) -> str:
        """Return the name of the filter that the expression needs."""
        if self._in_tag and not self._quote:
            raise TemplateSyntaxError("an expression in a tag must be within quotes", line, self._stream.name)
        if self._element == "script":
            raise TemplateSyntaxError("a script has no expressions", line, self._stream.name)
        return "attribute_text" if self._quote or self._element in _PLAIN else "text_markup"
