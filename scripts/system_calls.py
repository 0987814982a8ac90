"""Make the list of system calls for the filter of containers.

    python -m scripts.system_calls PROFILE.json COMMIT DATE x86_64.h aarch64.h riscv64.h > LIST

LIST is src/pumice/engines/local/sandbox/init/system_calls.json. PROFILE.json is seccomp/default.json of
https://github.com/moby/profiles, the profile that container runtimes start from, at COMMIT of DATE. The headers are
asm/unistd_64.h of a new kernel (`make headers_install ARCH=arm64`), by the kernel's names of the architectures.

The list has every call of the headers, in four groups:

- `usual`: the profile allows it to containers without further capabilities;
- `added`: debugging and memory policy, which the profile allows with a capability. The kernel checks each for the
  process that it is about, and a pod sees only its own;
- `privileged`: the kernel asks for a capability that no container has, unless a container makes namespaces of its own;
- `refused`: all others. A call that is too new for the list is refused likewise.

`python -m scripts.system_calls --check` compares the numbers with the headers of this machine.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).resolve().parents[1] / "src/pumice/engines/local/sandbox/init/system_calls.json"
ARCHITECTURES: Final = ("x86_64", "aarch64", "riscv64")
GROUPS: Final = ("usual", "added", "privileged", "refused")
ORIGIN: Final = "https://github.com/moby/profiles/blob/{commit}/seccomp/default.json"
# Not the mark of the numbers that are left to each architecture.
_DEFINITION: Final = re.compile(r"^#define __NR_(?!arch_specific_syscall\b)(\w+)\s+(\d+)$", re.MULTILINE)
_HEADERS: Final = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")

# Capabilities that containers have; and those whose entries are for debugging and NUMA.
_HELD: Final = {"CAP_SYS_CHROOT"}
_OWN_PROCESSES: Final = {"CAP_SYS_NICE", "CAP_SYS_PTRACE"}
_NUMA: Final = ("migrate_pages", "move_pages")
_PRIVILEGED: Final = frozenset(
    {
        *("mount", "umount2", "pivot_root", "unshare", "setns", "clone3", "sethostname", "setdomainname"),
        *("fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "mount_setattr", "open_tree", "open_tree_attr"),
        *("settimeofday", "clock_settime", "vhangup"),
    }
)
# Its mode, which may have a set-id bit, is in a structure, which a filter cannot read.
_UNREADABLE: Final = frozenset({"openat2"})
# The filter has the rules for their arguments.
_CONDITIONAL: Final = frozenset({"clone", "personality", "socket"})

Entry = Mapping[str, Any]


def header_numbers(header: str) -> dict[str, int]:
    return {name: int(number) for name, number in _DEFINITION.findall(header)}


def groups_by_name(entries: Iterable[Entry]) -> dict[str, str]:
    """Return the group of each call that the profile allows with the capabilities of containers."""
    found = dict.fromkeys(_NUMA, "added")
    for entry in entries:
        needed = set((entry.get("includes") or {}).get("caps") or ())
        if entry["action"] != "SCMP_ACT_ALLOW" or not needed <= _HELD | _OWN_PROCESSES:
            continue
        unknown = set(entry["names"]) - _CONDITIONAL if entry.get("args") else None
        if unknown:
            raise SystemExit(f"the profile has a condition that the filter does not have: {', '.join(sorted(unknown))}")
        for name in entry["names"]:
            group = "added" if needed & _OWN_PROCESSES else "usual"
            found[name] = "usual" if found.get(name) == "usual" else group
    return found | dict.fromkeys(_PRIVILEGED, "privileged") | dict.fromkeys(_UNREADABLE, "refused")


def document(entries: Iterable[Entry], origin: str, date: str, headers: Sequence[str]) -> str:
    """Return the list, a line for each call, so that the difference between two lists can be read."""
    numbers = [header_numbers(header) for header in headers]
    groups = groups_by_name(entries)
    lines: dict[str, list[str]] = {group: [] for group in GROUPS}
    for name in sorted(set().union(*numbers)):
        row = [each.get(name) for each in numbers]
        lines[groups.get(name, "refused")].append(f"{json.dumps(name)}:{json.dumps(row)}")
    head = {"origin": origin, "date": date, "architectures": ARCHITECTURES}
    texts = [f"{json.dumps(name)}:{json.dumps(value)}" for name, value in head.items()]
    texts += [f'"{group}":{{\n' + ",\n".join(calls) + "\n}" for group, calls in lines.items()]
    return "{" + ",\n".join(texts) + "}\n"


def differences(listed: Mapping[str, Any], header: str) -> list[str]:
    """Return a line for each call that the header of x86_64 has with another number, or that the list does not have."""
    known = {name: row[0] for group in GROUPS for name, row in listed[group].items()}
    return [
        f"{name}: {number} in the header, {known.get(name)} in the list"
        for name, number in header_numbers(header).items()
        if known.get(name) != number
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the list of system calls for the filter of containers.")
    parser.add_argument("--check", action="store_true", help="compare the list with the headers of this machine")
    parser.add_argument("inputs", nargs="*", metavar="PROFILE.json COMMIT DATE x86_64.h aarch64.h riscv64.h")
    arguments = parser.parse_args()
    if arguments.check:
        found = differences(json.loads(FILE.read_bytes()), _HEADERS.read_text())
        print(*(found or [f"{_HEADERS}: the list has the same numbers"]), sep="\n")
        return 1 if found else 0
    if len(arguments.inputs) != 3 + len(ARCHITECTURES):
        parser.error("six arguments are needed")
    profile, commit, date, *headers = arguments.inputs
    entries = json.loads(Path(profile).read_bytes())["syscalls"]
    sys.stdout.write(
        document(entries, ORIGIN.format(commit=commit), date, [Path(header).read_text() for header in headers])
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
