"""`pumice plugins [NAME]`: lists the plugins, or the arguments of one."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Final

from pumice.cli.errors import refuse
from pumice.client.view.output import columns, fit, style_for, table
from pumice.model.suggestions import nearest
from pumice.plugins.arguments import Option
from pumice.plugins.base import Base
from pumice.plugins.registry import Registry
from pumice.runtime.discovery import discover

_SHORTEST_PART: Final = 3  # of a plugin's name: torch for pytorch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    about = "print the arguments of this plugin; default: list all"
    parser.add_argument("name", metavar="NAME", nargs="?", default="", help=about)
    parser.add_argument("--json", action="store_true", help="print one JSON object per plugin")


def run(args: argparse.Namespace) -> int:
    registry = discover()
    if args.name and args.name not in registry.plugins:
        return _refuse_name(args.name, registry)
    chosen = [registry.plugins[args.name]] if args.name else list(registry.plugins.values())
    if args.json:
        for plugin in chosen:
            print(json.dumps(_described(plugin, registry), ensure_ascii=False))
    elif args.name:
        _print(page(chosen[0]))
    else:
        rows = [(p.name, ", ".join(p.requires) or "-", p.summary) for p in chosen]
        listed = table([("NAME", "NEEDS", "WHAT IT DOES"), *rows], width=columns(sys.stdout))
        _print([*listed, "", "pumice plugins NAME shows the arguments of one"])
    for name, problem in registry.broken.items():
        print(f"{name}: installed, but cannot be used: {problem}", file=sys.stderr)
    return 0


def _print(lines: list[str]) -> None:
    print("\n".join(fit(line, sys.stdout) for line in lines))


def page(plugin: type[Base]) -> list[str]:
    """The description of a plugin's arguments."""
    needs = f"        needs {', '.join(plugin.requires)}" if plugin.requires else ""
    lines = [f"{style_for(sys.stdout).bold(plugin.name)}: {plugin.summary}{needs}", ""]
    rows = [
        (f"--{o.flag}", o.type.__name__.replace("str", "string"), default_text(o), o.help) for o in plugin.options()
    ]
    lines += table(rows, "  ", columns(sys.stdout)) if rows else ["  no arguments"]
    example = ", ".join(f'"{arg}"' for arg in plugin.example)
    return [*lines, "", "  plugins:", f"    {plugin.name}: [{example}]"]


def default_text(option: Option) -> str:
    if option.default is None or option.default == "":
        return "-"
    return str(option.default).lower() if isinstance(option.default, bool) else str(option.default)


def _described(plugin: type[Base], registry: Registry) -> dict[str, object]:
    return {
        "name": plugin.name,
        "summary": plugin.summary,
        "requires": list(plugin.requires),
        "builtin": plugin.name not in registry.third_party,
        "example": list(plugin.example),
        "arguments": [
            {
                "name": option.flag,
                "type": option.type.__name__.replace("str", "string"),
                "default": option.default,
                "meaning": option.help,
                "spellings": list(dict.fromkeys(option.names)),
            }
            for option in plugin.options()
        ],
    }


def _refuse_name(name: str, registry: Registry) -> int:
    if name in registry.broken:
        return refuse(f"{name}: installed, but cannot be used: {registry.broken[name]}")
    within = [each for each in registry.plugins if len(name) >= _SHORTEST_PART and name.casefold() in each.casefold()]
    close = nearest(name, registry.plugins) or next(iter(within), None)
    suggestion = f"did you mean {close}? " if close is not None else ""
    return refuse(f"{name}: no such plugin", f"{suggestion}there are {', '.join(registry.plugins)}")
