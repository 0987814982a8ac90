"""Takes secret values out of what is stored of a run, before it is packed into an archive."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pumice.admission.program_arguments import read_arguments
from pumice.model import keys
from pumice.model.syntax import SECRET_NAME

REDACTED: Final = "<redacted>"
# kubectl keeps the whole object in it, with the values of variables.
_WORDS: Final = frozenset({"command", "args"})


def redacted_line(line: bytes) -> bytes:
    """Return a line of JSON without secrets; nothing if it is damaged."""
    try:
        plain = msgspec.json.decode(line)
    except (msgspec.DecodeError, ValueError):
        return b""
    if isinstance(plain, dict) and isinstance(plain.get("marks"), list):
        # The text of the file has the values of variables, too.
        plain["marks"] = plain["marks"][:3]
    return msgspec.json.encode(redacted(plain)) + b"\n"


def redacted(value: Any) -> Any:
    """Return the value with the values of secret variables and arguments replaced."""
    if isinstance(value, list):
        return [redacted(each) for each in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("name"), str) and "value" in value and SECRET_NAME.search(value["name"]):
        return {**value, "value": REDACTED}
    env = value.get("env")
    found = {name: _words(each) if name in _WORDS else redacted(each) for name, each in value.items()}
    if isinstance(env, dict):
        found["env"] = {name: REDACTED if SECRET_NAME.search(name) else each for name, each in env.items()}
    if isinstance(plugins := value.get("plugins"), dict):
        found["plugins"] = {name: _words(each) for name, each in plugins.items()}
    if keys.LAST_APPLIED in value:
        del found[keys.LAST_APPLIED]
    return found


def _words(value: Any) -> Any:
    """Return a command line without the values of secret arguments: of `--api-key X` and `--token=X`."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        return redacted(value)
    return list(read_arguments(value).shown)
