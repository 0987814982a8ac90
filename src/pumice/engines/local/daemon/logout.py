"""Whether the system ends the processes of a user at logout: `KillUserProcesses=yes` of systemd-logind, no linger."""

from __future__ import annotations

import configparser
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

_DIRECTORIES: Final = ("usr/lib/systemd", "usr/local/lib/systemd", "run/systemd", "etc/systemd")
_FILE: Final = "logind.conf"
_KEYS: Final = ("killuserprocesses", "killonlyusers", "killexcludeusers")
_YES: Final = frozenset({"yes", "true", "on", "1"})
# The file that a distribution ships has its defaults as comments.
_DEFAULT: Final = re.compile(r"^#(KillUserProcesses=\w+)", re.MULTILINE)


def ends_at_logout(user: str, root: Path = Path("/")) -> bool:
    """Return whether processes of this session end with it. False where systemd does not say so."""
    if not (root / "run/systemd/system").is_dir() or (root / "var/lib/systemd/linger" / user).exists():
        return False
    with suppress(OSError):
        if "session-" not in (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace"):
            # Not of a login: a service, or cron.
            return False
        settings = _settings(root)
        only, excluded = (settings.get(key, "").split() for key in _KEYS[1:])
        excluded = excluded if _KEYS[2] in settings else ["root"]
        return settings.get(_KEYS[0], "no") in _YES and (not only or user in only) and user not in excluded
    return False


def _settings(root: Path) -> dict[str, str]:
    """Return what the configuration says: one main file, and parts of it, of which the last by name wins."""
    found: dict[str, str] = {}
    main = [root / each / _FILE for each in _DIRECTORIES if (root / each / _FILE).is_file()][-1:]
    parts = {path.name: path for each in _DIRECTORIES for path in (root / each / f"{_FILE}.d").glob("*.conf")}
    for path in (*main, *(parts[name] for name in sorted(parts))):
        text = path.read_text(encoding="utf-8", errors="replace")
        default = _DEFAULT.search(text) if path in main else None
        parser = configparser.ConfigParser(interpolation=None, strict=False, allow_no_value=True)
        with suppress(configparser.Error):
            parser.read_string(f"[Login]\n{default[1]}\n{text}" if default else text)
            found |= {key: value or "" for key, value in parser["Login"].items() if key in _KEYS}
    return found
