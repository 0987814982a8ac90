"""Builds HTML and words. `tag` is the only function that writes markup; it escapes every text that is not `Html`.

Control and direction characters are drawn as small tags, so that a name or a line cannot look like another. No element
has a `style` attribute, which the page's content policy forbids: sizes are classes or SVG attributes.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable
from html import escape as escape_markup
from typing import Final, TypeAlias
from urllib.parse import urlencode

from pumice.model.text import HIDDEN_CHARACTERS

MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86400
KIB: Final = 1024
LARGE: Final = 100  # from here on no digit after the point


class Html(str):
    """Markup. Only `tag` and `join` make it."""

    __slots__ = ()


Child: TypeAlias = "str | int | Iterable[Child] | None"
Attribute: TypeAlias = str | int | float | bool | None

VOID: Final = frozenset({"input", "meta", "link", "br"})
PLAIN: Final = frozenset({"title", "option", "text", "textarea"})  # elements that hold text only
HIDDEN: Final = re.compile(f"[\x00-\x08\x0b-\x1f{HIDDEN_CHARACTERS}]")  # but tab and newline
CONTROL_NAMES: Final = (
    *("NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "TAB", "LF", "VT", "FF", "CR", "SO", "SI"),
    *("DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US"),
)


def character_name(character: str) -> str:
    """Return what is drawn instead of a hidden character: `ESC`, `U+202E`."""
    code = ord(character)
    if code < len(CONTROL_NAMES):
        return CONTROL_NAMES[code]
    return "DEL" if character == "\x7f" else f"U+{code:04X}"


def plain(text: str) -> str:
    """Return the text for an attribute or a title, with hidden characters as `[ESC]`."""
    return HIDDEN.sub(lambda match: f"[{character_name(match[0])}]", text)


def escape(text: str) -> Html:
    """Return text as markup."""
    marked = escape_markup(text, quote=True)
    if HIDDEN.search(marked) is None:
        return Html(marked)
    return Html(HIDDEN.sub(lambda match: f'<span class="ctl">{character_name(match[0])}</span>', marked))


def join(*children: Child) -> Html:
    """Return children one after the other: `Html` as it is, other text escaped, None left out."""
    parts: list[str] = []
    for child in children:
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str):
            parts.append(escape(child))
        elif isinstance(child, int):
            parts.append(str(child))
        elif child is not None:
            parts.append(join(*child))
    return Html("".join(parts))


def tag(selector: str, *children: Child, **attributes: Attribute) -> Html:
    """Return an element: `tag("a.jn", "text", href="/")`. None and False leave an attribute out, True has no value.

    `_` in the name of an attribute stands for `-`, and one at the end is ignored.
    """
    name, *classes = selector.split(".")
    if more := attributes.pop("class_", None):
        classes.append(str(more))
    parts = [f'<{name} class="{" ".join(classes)}"' if classes else f"<{name}"]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        parts.append(" " + key.rstrip("_").replace("_", "-"))
        if value is not True:
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
            parts.append(f'="{escape_markup(plain(text), quote=True)}"')
    if name in VOID:
        return Html("".join(parts) + ">")
    if name in PLAIN:
        children = tuple(
            plain(child) if isinstance(child, str) and not isinstance(child, Html) else child for child in children
        )
    return Html(f"{''.join(parts)}>{join(*children)}</{name}>")


# --- words --------------------------------------------------------------------------------------------------------


def number(value: float, digits: int = 0) -> str:
    """Return `1,311` or `11.8`."""
    return f"{value:,.{digits}f}"


def plural(count: int, word: str, many: str = "") -> str:
    """Return `1 pod`, `8 pods`."""
    return f"{count:,} {word if count == 1 else many or word + 's'}"


def duration(seconds: float) -> str:
    """Return `5.5 s`, `13 m 53 s`, `2 h 11 m`, `3 d 4 h`."""
    if seconds < MINUTE - 0.05:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < HOUR:
        return f"{whole // MINUTE} m {whole % MINUTE:02} s"
    if whole < DAY:
        return f"{whole // HOUR} h {whole % HOUR // MINUTE:02} m"
    return f"{whole // DAY} d {whole % DAY // HOUR} h"


def brief(seconds: float) -> str:
    """Return the largest unit of a duration: `31 m`."""
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole} s"
    if whole < HOUR:
        return f"{whole // MINUTE} m"
    return f"{whole // HOUR} h" if whole < DAY else f"{whole // DAY} d"


def offset(seconds: float) -> str:
    """Return the time of a line from the start: `0.3`, `4:12.4`, `2:09:17`."""
    if seconds < MINUTE - 0.05:
        return f"{max(0.0, seconds):.1f}"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)}:{seconds % MINUTE:04.1f}"
    whole = int(seconds)
    return f"{whole // HOUR}:{whole % HOUR // MINUTE:02}:{whole % MINUTE:02}"


def ago(then: dt.datetime, now: dt.datetime) -> str:
    """Return `12 s ago`, `34 min ago`, `2 h ago`, `yesterday`, `5 days ago`."""
    seconds = max(0, int((now - then).total_seconds()))
    if seconds < MINUTE:
        return f"{seconds} s ago"
    if seconds < HOUR:
        return f"{seconds // MINUTE} min ago"
    if seconds < DAY:
        return f"{seconds // HOUR} h ago"
    return "yesterday" if seconds < 2 * DAY else f"{seconds // DAY} days ago"


def clock(moment: dt.datetime) -> str:
    """Return the local time of day."""
    return f"{moment.astimezone():%H:%M:%S}"


def time_tag(moment: dt.datetime, text: str, form: str = "") -> Html:
    """Return a time. The script renews the text of those with a form, `ago` or `ran`, as time passes."""
    local = moment.astimezone()
    return tag(
        "time",
        text,
        datetime=local.isoformat(timespec="seconds"),
        title=f"{local:%Y-%m-%d %H:%M:%S %z}",
        data_form=form or None,
    )


def gib(amount: float) -> str:
    """Return bytes in GiB, or in MiB where that says more: `11.8 GiB`, `300 MiB`."""
    if amount < KIB**3 / 10:
        return f"{amount / KIB**2:.0f} MiB" if amount >= KIB**2 else f"{amount / KIB:.0f} KiB"
    value = amount / KIB**3
    return f"{value:.0f} GiB" if value >= LARGE or value == int(value) else f"{value:.1f} GiB"


def cores(amount: float) -> str:
    """Return a number of CPUs: `43`, `0.5`."""
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:.1f}"


def file_name(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


def pod_link(pod: str, attempt: int) -> str:
    """Return the query that shows one pod of an attempt; without a pod it shows all."""
    query = {"attempt": str(attempt) if attempt else "", "pod": pod}
    return "?" + urlencode({name: value for name, value in query.items() if value})
