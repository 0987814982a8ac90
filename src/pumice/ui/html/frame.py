"""Draws what every page has: the head, the bar on top with what is reserved of the machine, notices, keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pumice.ui.html.marks import LOGO, icon, sprite
from pumice.ui.html.text import KIB, Child, Html, clock, cores, gib, join, plain, plural, tag
from pumice.ui.values import Info, Reservation
from pumice.ui.views import Frame

KEYS: Final = (
    ("/", "search, or filter the list"),
    ("j k", "next row, row before"),
    ("enter", "open the row"),
    ("esc", "back; leave the field"),
    ("1 – 6", "filter of the list, tab of a job"),
    ("[ ]", "attempt before, next attempt"),
    ("e", "first error"),
    ("n N", "next match, match before"),
    ("f", "follow new lines"),
    ("t", "times of lines"),
    ("w", "wrap long lines"),
    ("z", "logs on the full screen"),
    ("m", "mark the line on top"),
    ("← ↑ → ↓", "in tabs, lifelines and cells"),
    ("?", "this list"),
)


def document(frame: Frame, title: str, main: Child, **data: str) -> str:
    """Return a whole page. `data` become `data-` attributes of the body, for the script."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="pumice-token", content=frame.token),
        tag("title", f"{title} · Pumice"),
        tag("link", rel="icon", href="/static/icon.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href="/static/page.css"),
        tag("script", src="/static/theme.js"),
        tag("script", src="/static/page.js", type="module"),
    )
    body = tag(
        "body",
        sprite(),
        tag("a.skip", "Skip to content", href="#main"),
        top_bar(frame.info),
        tag("main", tag("div", id="banner", role="status"), notices(frame.info), main, id="main", tabindex=-1),
        tag("dialog", id="dialog", aria_labelledby="dialog-title"),
        keys_dialog(),
        tag("div", id="tip", role="tooltip", hidden=True),
        tag("div.sr", id="said", aria_live="polite"),
        **{f"data_{key}": value for key, value in data.items()},
    )
    return f"<!doctype html>{tag('html', head, body, lang='en')}"


def top_bar(info: Info) -> Html:
    """Draw the bar on top."""
    return tag(
        "header.top",
        tag("a.brand", LOGO, "Pumice", href="/"),
        tag("span.where", "on ", tag("b", info.scope)),
        tag("div.tmeters", meters(info), id="meters"),
        tag("span.live.off", tag("i"), tag("span", f"as of {clock(info.now)}"), id="live", role="status"),
        tag(
            "button.btn.quiet.icon.js",
            icon("i-theme"),
            type="button",
            id="theme",
            aria_label="Theme",
            data_tip="Theme",
        ),
        tag(
            "button.btn.quiet.icon.js",
            icon("i-help"),
            type="button",
            id="help",
            aria_label="Keys",
            data_tip="Keys (?)",
        ),
    )


def meters(info: Info) -> Html:
    """Draw what is reserved of CPU, memory and GPUs; a kind that the machine does not have is left out."""
    capacity = info.capacity
    reserved_cpu = sum(each.resources.cpu for each in info.reserved)
    reserved_memory = sum(each.resources.memory for each in info.reserved)
    whole = capacity.memory / KIB**3
    shown = f"{reserved_memory / KIB**3:.1f}".removesuffix(".0")
    parts = [
        _meter(
            "CPU",
            info.reserved,
            tuple(each.resources.cpu for each in info.reserved),
            capacity.cpu,
            (cores(reserved_cpu), cores(capacity.cpu)),
        ),
        _meter(
            "Memory",
            info.reserved,
            tuple(float(each.resources.memory) for each in info.reserved),
            float(capacity.memory),
            (shown, f"{whole:.0f} GiB"),
        ),
    ]
    if capacity.gpus:
        parts.append(_gpu_meter(info))
    return join(parts)


def _meter(
    name: str, holders: tuple[Reservation, ...], amounts: tuple[float, ...], capacity: float, words: tuple[str, str]
) -> Html:
    rects: list[Html] = []
    left = 0.0
    for holder, amount in zip(holders, amounts, strict=True):
        wide = 100 * amount / capacity if capacity else 0.0
        if wide <= 0:
            continue
        shown = gib(amount) if name == "Memory" else cores(amount)
        rects.append(
            tag(
                "rect",
                x=round(left, 2),
                y=0,
                width=max(0.5, round(min(wide, 100 - left) - 0.6, 2)),
                height=6,
                data_tip=f"{plain(holder.job) or 'other programs'}: {shown}",
            )
        )
        left += wide
    label = f"{name} reserved: {words[0]} of {words[1]}"
    return tag(
        "div.meter",
        tag("span", name),
        tag("svg.track", rects, viewBox="0 0 100 6", preserveAspectRatio="none", role="img", aria_label=label),
        tag("span.v", tag("b", words[0]), f" of {words[1]}"),
    )


def _gpu_meter(info: Info) -> Html:
    owner = {gpu: each.job for each in info.reserved for gpu in each.resources.gpus}
    held = sum(gpu in owner for gpu in info.capacity.gpus)
    tip = "\n".join(f"GPU {gpu}: {owner.get(gpu, 'free')}" for gpu in info.capacity.gpus)
    return tag(
        "div.meter",
        tag("span", "GPU"),
        tag(
            "span.gpus",
            [tag("i", class_="on" if gpu in owner else "off") for gpu in info.capacity.gpus],
            role="img",
            aria_label=f"{held} of {plural(len(info.capacity.gpus), 'GPU')} reserved",
            data_tip=tip,
        ),
        tag("span.v", tag("b", held), f" of {len(info.capacity.gpus)}"),
    )


def notices(info: Info) -> Html:
    """Draw what is wrong with the store, such as a full disk."""
    return join([tag("div.banner.w", tag("div", notice)) for notice in info.notices])


def keys_dialog() -> Html:
    """Draw the list of keys, which `?` opens."""
    rows = [
        join(tag("dt", [join(tag("kbd", key), " ") for key in keys.split(" ") if key]), tag("dd", words))
        for keys, words in KEYS
    ]
    return tag(
        "dialog",
        tag(
            "form.dlg",
            tag("h2", "Keys", id="keys-title"),
            tag("dl.keys", rows),
            tag("p.muted", "No single key acts on a job."),
            tag("div.row", tag("button.btn", "Close", value="close")),
            method="dialog",
        ),
        id="keys",
        aria_labelledby="keys-title",
    )


def copyable(command: str, selector: str = "span.copy") -> Html:
    """Draw a command with a button that copies it."""
    return tag(
        selector,
        tag("code", command),
        tag("button.btn.quiet.sm.js", "Copy", type="button", data_copy=True, aria_label=f"Copy {command}"),
    )


def card(title: Child, *children: Child, sub: Child = None, right: Child = None, **attributes: str | None) -> Html:
    """Draw a card with a heading."""
    return tag(
        "section.card",
        tag(
            "header",
            tag("h2", title),
            tag("span.sub", sub) if sub else None,
            tag("span.right", right) if right else None,
        ),
        *children,
        **attributes,
    )


def choose_rows(counts: Iterable[tuple[str, int]], label: str) -> Html:
    """Draw buttons that choose the rows of a table: those whose `data-group` has the name. They need the script."""
    buttons = [
        tag(
            "button",
            f"{name} {count:,}",
            type="button",
            data_by=name.replace(" ", "-"),
            aria_pressed="true" if name == "all" else "false",
        )
        for name, count in counts
    ]
    return tag("span.seg.js", buttons, role="group", aria_label=label)
