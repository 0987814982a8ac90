"""Plugin arguments: parse the strings of `spec.plugins.<name>` into typed values and findings.

The parser accepts every spelling of Go's `flag` package, which Volcano uses (`-x v`, `--x v`, `--x=v`, a bare boolean),
and the camelCase names of Volcano's documentation, with or without dashes. Volcano logs a bad argument and drops it
with all arguments after it; Pumice reports each one with the corrected list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

from msgspec import Struct

from pumice.model.findings import Finding, Path, warning
from pumice.model.suggestions import nearest

Value = str | int | bool

_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_LONGEST_NAME: Final = 30
# If the plugin takes keys, a longer value may be one, unless it is a path.
_LONGEST_SHOWN: Final = 20
_NAME: Final = re.compile(r"(?P<dashes>-{0,2})(?P<name>[A-Za-z][A-Za-z0-9-]*)(?=[=\s]|\Z)")
_FLAG: Final = re.compile(_NAME.pattern + r"(?:(?P<mark>=|\s+)(?P<value>.*))?\Z", re.DOTALL)


class Option(Struct, frozen=True):
    """One argument that a plugin takes."""

    flag: str
    type: type
    default: Value | None
    help: str = ""
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    # A key: never printed, and never split at white space.
    secret: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return _names(self)

    def read(self, text: str) -> Value:
        """Parse a value. Raises ValueError with the accepted values."""
        if self.type is bool:
            if text not in _BOOLEANS:
                raise ValueError("must be true or false")
            return _BOOLEANS[text]
        if self.type is int:
            return self._read_number(text)
        if self.choices and text not in self.choices:
            raise ValueError(f"must be {' or '.join(self.choices)}")
        return text

    def _read_number(self, text: str) -> int:
        low, high = self.low, self.high
        accepted = "must be a whole number" if low is None else f"must be {low} or more"
        if high is not None:
            accepted = f"must be between {low} and {high}"
        if not re.fullmatch(r"[+-]?(0|[1-9][0-9]{0,18})", text):
            raise ValueError(accepted)
        number = int(text)
        if (low is not None and number < low) or (high is not None and number > high):
            raise ValueError(accepted)
        return number

    def spelled(self, value: object) -> str:
        """Return the argument in its canonical spelling, to be shown."""
        return f"--{self.flag}=..." if self.secret else self.written(value)

    def written(self, value: object) -> str:
        """Return the argument in its canonical spelling, keys too."""
        return f"--{self.flag}={str(value).lower() if isinstance(value, bool) else value}"


class _Token(Struct, frozen=True):
    """One flag or bare word, and its position in the list."""

    text: str
    position: int


class Arguments(Struct):
    """The parser of one plugin's arguments."""

    plugin: str
    options: tuple[Option, ...]
    at: Path

    def parse(self, args: Sequence[str]) -> tuple[dict[str, Value], list[Finding]]:
        """Return the values by flag, and findings about the arguments."""
        values: dict[str, Value] = {}
        findings: list[Finding] = []
        corrected: dict[str, str] = {}  # by flag
        tokens = list(self._tokens(args))
        while tokens:
            token = tokens.pop(0)
            option, text = self._flag_of(token.text)
            if option is None:
                findings.append(self._unknown(token, corrected))
                continue
            if text is None and option.type is not bool and tokens and not self._flag_of(tokens[0].text)[0]:
                text = tokens.pop(0).text
            try:
                if text is None and option.type is not bool:
                    raise ValueError("needs a value")
                value = True if text is None else option.read(text)
            except ValueError as error:
                findings.append(Finding(self.at / token.position, str(error), self._shown(option, token, text)))
                corrected.setdefault(option.flag, option.spelled("..." if option.default is None else option.default))
                continue
            if option.flag in values:
                shown = self._shown(option, token, text)
                findings.append(warning(self.at / token.position, "given twice; the last one counts", shown))
            values[option.flag] = value
            corrected[option.flag] = option.spelled(self._harmless(value))
        return values, [self._with_correction(finding, corrected) for finding in findings]

    def _tokens(self, args: Sequence[str]) -> Iterator[_Token]:
        key_follows = False
        for position, arg in enumerate(args):
            if key_follows and self._flag_of(arg.lstrip())[0] is None:
                key_follows = False
                yield _Token(arg, position)
                continue
            for text in self._split(arg.lstrip()):
                # A boolean takes its value only by `=`, as in Go: `--flag word` is a flag and a bare word.
                option, value = self._flag_of(text)
                key_follows = option is not None and option.secret and value is None
                apart = re.split(r"\s+", text, maxsplit=1) if option is not None and option.type is bool else [text]
                for part in apart:
                    yield _Token(part, position)

    def _split(self, arg: str) -> Iterator[str]:
        """Split a string with several flags at white space before a known flag, but never inside a key."""
        start, current = 0, self._option_at(arg, 0)
        for space in re.finditer(r"\s+", arg):
            if current is not None and current.secret:
                # Keys keep their white space: ssh refuses a key without a newline at the end.
                yield arg[start:]
                return
            ahead = self._option_at(arg, space.end())
            if ahead is not None:
                yield arg[start : space.start()]
                start, current = space.end(), ahead
        yield arg[start:].rstrip()

    def _option_at(self, text: str, start: int) -> Option | None:
        """Return the option whose name is at this index of the text."""
        match = _NAME.match(text, start)
        # Only camelCase names may omit the dashes; `port=9` could be anything.
        if match is None or not (match["dashes"] or re.search("[A-Z]", match["name"])):
            return None
        return next((option for option in self.options if match["name"] in option.names), None)

    def _flag_of(self, text: str) -> tuple[Option | None, str | None]:
        """Return the option that the text names, and its value if the text contains it."""
        match = _FLAG.match(text)
        if match is None:
            return None, None
        return self._option_at(text, 0), match["value"] if match["mark"] == "=" else match["value"] or None

    def _unknown(self, token: _Token, corrected: dict[str, str]) -> Finding:
        at = self.at / token.position
        previous = next(reversed(corrected), "")
        if token.text in _BOOLEANS and any(o.flag == previous and o.type is bool for o in self.options):
            corrected[previous] = f"--{previous}={str(_BOOLEANS[token.text]).lower()}"
            return Finding(at, "a boolean takes its value after =", token.text)
        match = _FLAG.match(token.text)
        name, _, value = (
            token.text.lstrip("-").partition("=") if match is None else match.group("name", "mark", "value")
        )
        close = self._closest(name)
        if close is not None:
            shown = self._harmless(value or "") or ("true" if close.type is bool else "...")
            corrected.setdefault(close.flag, close.spelled(shown))
        if match is None or not (match["dashes"] or match["mark"] == "="):
            message = "is not an argument" if token.text else "an empty argument"
            return Finding(at, message, self._redacted(token.text), hint=self._did_you_mean(close))
        return Finding(at, "unknown argument", self._redacted(token.text), hint=self._did_you_mean(close))

    @property
    def _expects_keys(self) -> bool:
        return any(option.secret for option in self.options)

    def _redacted(self, text: str) -> str:
        """Hide text that may be a key, if the plugin takes keys: show only what looks like a flag."""
        if not self._expects_keys:
            return text
        name = re.split(r"[=\s]", text, maxsplit=1)[0]
        is_name = re.fullmatch(r"--?[A-Za-z][A-Za-z0-9-]*", name) and len(name) <= _LONGEST_NAME
        if is_name or len(text) <= _LONGEST_SHOWN or self._closest(name) is not None:
            return text if len(text) <= _LONGEST_SHOWN else f"{name}=..."
        return "..."

    def _harmless(self, value: Value) -> Value:
        """Hide a value that may be a key, if the plugin takes keys: a user may give one to any flag."""
        if not self._expects_keys or not isinstance(value, str) or len(value) <= _LONGEST_SHOWN:
            return value
        return value if re.fullmatch(r"/[^\s]{0,62}", value) else "..."

    def _shown(self, option: Option, token: _Token, text: str | None) -> str:
        """Return the flag as written, unless its value is in the next string or may be a key."""
        if not self._expects_keys and token.text.endswith(text or ""):
            return token.text
        return f"--{option.flag}" if text is None else option.spelled(self._harmless(text))

    def _closest(self, name: str) -> Option | None:
        by_name = {spelling: option for option in self.options for spelling in option.names}
        found = nearest(name, by_name)
        return by_name[found] if found is not None else None

    def _did_you_mean(self, close: Option | None) -> str:
        taken = ", ".join(f"--{option.flag}" for option in self.options) or "no arguments"
        asked = f"did you mean --{close.flag}? " if close is not None else ""
        return f"{asked}{self.plugin} takes {taken} (pumice plugins {self.plugin})"

    def _with_correction(self, finding: Finding, corrected: dict[str, str]) -> Finding:
        written = f"write {self.plugin}: [" + ", ".join(f'"{arg}"' for arg in corrected.values()) + "]"
        hint = f"{finding.hint}; {written}" if finding.hint else written
        return Finding(finding.path, finding.message, finding.value, hint, finding.severity)


@cache
def _names(option: Option) -> tuple[str, ...]:
    head, *rest = option.flag.split("-")
    camel = head + "".join(word.capitalize() for word in rest)
    kebab = re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", option.flag)
    return (option.flag, camel, kebab, *option.aliases)
