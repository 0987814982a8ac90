"""`pumice service [status|stop|log|install|uninstall]`: the process that queues, recovers and removes runs."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pumice.cli.runs.arguments import FAILED, guarded
from pumice.client.backends import open_backend, require_local
from pumice.client.view.output import table
from pumice.store.settings import config_directory

if TYPE_CHECKING:
    from pumice.client.backends import ThisMachine

_ACTIONS = ("status", "stop", "log", "install", "uninstall")
_UNIT = "pumice.service"
# KillMode: the processes of runs continue when the service ends.
_UNIT_TEXT = """\
[Unit]
Description=Pumice: queues and recovers runs

[Service]
ExecStart={command}
Restart=on-failure
KillMode=process

[Install]
WantedBy=default.target
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = f"{', '.join(_ACTIONS)}; default {_ACTIONS[0]}"
    parser.add_argument("action", nargs="?", choices=_ACTIONS, default=_ACTIONS[0], metavar="ACTION", help=help_text)


def run(args: argparse.Namespace) -> int:
    actions = {"status": _status, "stop": _stop, "log": _log, "install": _install, "uninstall": _uninstall}
    return guarded(lambda: actions[args.action](require_local(open_backend(), "the service")))


def _status(machine: ThisMachine) -> int:
    found = asyncio.run(machine.service_status())
    if found is None:
        print("the service is not running; it starts when it is needed")
        return 0
    print("\n".join(table([(name, str(value)) for name, value in found.items()])))
    return 0


def _stop(machine: ThisMachine) -> int:
    """Stop the service; runs continue."""
    if not asyncio.run(machine.stop_service()):
        print("the service is not running", file=sys.stderr)
    return 0


def _log(machine: ThisMachine) -> int:
    path = machine.service_log()
    if path.exists():
        sys.stdout.write(path.read_text(encoding="utf-8", errors="replace"))
    return 0


def _unit_file() -> Path | None:
    """Return the unit of the user's systemd, which has its settings beside ours; None without a home."""
    settings = config_directory(os.environ)
    return None if settings is None else settings.parent / "systemd" / "user" / _UNIT


def _install(machine: ThisMachine) -> int:
    """Write a unit of the user's systemd, so that runs continue after a restart of the machine."""
    unit = _unit_file()
    if unit is None:
        print("there is no home directory for the unit\n  hint: set HOME or XDG_CONFIG_HOME", file=sys.stderr)
        return FAILED
    unit.parent.mkdir(parents=True, exist_ok=True)
    # systemd replaces what follows these characters.
    command = machine.service_command()
    unit.write_text(_UNIT_TEXT.format(command=command.replace("%", "%%").replace("$", "$$")), encoding="utf-8")
    print(unit)
    if shutil.which("systemctl") is None or _systemctl("daemon-reload") or _systemctl("enable", _UNIT):
        print(f"systemd did not accept it: start it at login with\n  {command}", file=sys.stderr)
        return FAILED
    print("it starts at login; `loginctl enable-linger` starts it at boot", file=sys.stderr)
    return 0


def _uninstall(_machine: ThisMachine) -> int:
    unit = _unit_file()
    if unit is None or not unit.exists():
        print("no unit is installed", file=sys.stderr)
        return 0
    if shutil.which("systemctl") is not None:
        _systemctl("disable", _UNIT)
    unit.unlink()
    return 0


def _systemctl(*words: str) -> int:
    done = subprocess.run(["systemctl", "--user", *words], capture_output=True, text=True, check=False)  # noqa: S603, S607 - PATH decides, as in a shell
    if done.returncode:
        print(done.stderr.strip(), file=sys.stderr)
    return done.returncode
