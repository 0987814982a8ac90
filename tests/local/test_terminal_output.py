"""What a job can name, print or leave behind, in all commands on a terminal: shown, and never obeyed.

Every command of `pumice` has rows in the table ROWS, so that the next command cannot forget it. What reaches the
terminal has only the escape sequences of the program itself; what comes from a job is escaped, but for colours of log
lines. Pipes get what was written.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import struct
import termios
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from typing import Final

import pytest
import yaml

from pumice.cli.main import COMMANDS
from tests.fork_server import fork_server
from tests.local.commands import Terminal, open_terminal
from tests.local.running import MODULES, Manifest, job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

COLOUR: Final = "\x1b[7;45m"  # none of the program's own
# What a terminal would obey, or show as something else; no shell, YAML file or file system refuses any of it.
PAYLOADS: Final = {
    "clipboard": "\x1b]52;c;Y2FuYXJ5\x07",
    "title": "\x1b]0;title\x07",
    "clear": "\x1b[2J",
    "colour": COLOUR,
    "device": "\x1bP+q\x1b\\",
    "C1": "\x9b2J",
    "bell": "\x07",
    "backspace": "\x08",
    "return": "a\rb",
    "DEL": "\x7f",
    "override": "\u202e",
    "isolate": "\u2066",
    "mark": "\u200f",
    "line": "\u2028",
    "paragraph": "\u2029",
    "BOM": "\ufeff",
    "tag": "\U000e0041",
}
HOSTILE: Final = "canary" + "".join(PAYLOADS.values())
FORGED: Final = f"{HOSTILE}\nforged"  # a line that the program did not begin
NUL: Final = f"{FORGED}\0"
# Bytes that no text has: NUL, and C1 as one byte, which is not UTF-8.
LINES: Final = [f"canary {text} end".encode() for text in PAYLOADS.values()] + [b"canary \0 end", b"canary \x9b2J end"]
# The escape sequences of the program: its colours, the lines that stay below (Screen, ProgressLine) and `ps -w`.
OWN: Final = re.compile(
    r"\x1b\[(?:0|1|1;31|1;32|33|2|(?:2;)?[39][1-7])m|\r(?:\x1b\[\d+A)?\x1b\[J|\r\x1b\[K|\x1b\[H\x1b\[J"
)
QUOTED: Final = '"' + "".join(f"\\U{ord(each):08x}" for each in FORGED) + '"'  # in YAML and TOML
JOB: Final = f"job-{HOSTILE}.yaml"
NAMES: Final = f"""
import os
for name in {[*PAYLOADS.values(), FORGED]!r}:
    os.mkfifo(f"/data/canary-{{name}}")
os.mkfifo(b"/data/canary-\\x9b2J")
print("up", flush=True)
"""


@dataclass(frozen=True)
class Row:
    """A command. Its output has something of a job unless `shows` is False, and with `logs` colours of log lines.

    `until`: it goes on, so it is interrupted when this is shown.
    """

    words: tuple[str, ...]
    shows: bool = True
    logs: bool = False
    code: int = 0
    until: str = ""

    @property
    def name(self) -> str:
        return " ".join(self.words).replace(HOSTILE, "HOSTILE")


def _row(*words: str, code: int = 0, until: str = "", **facts: bool) -> Row:
    return Row(words, code=code, until=until, **facts)


ROWS: Final[dict[str, list[Row]]] = {
    "init": [_row("init", f"{HOSTILE}.py", code=2), _row("init", "train.py", "--name", HOSTILE, code=2)],
    "validate": [
        _row("validate", JOB),
        _row("validate", "wrong.yaml", code=2),
        _row("validate", "wrong.yaml", "--json", code=2),
        _row("validate", "broken.yaml", code=2),
        _row("validate", f"{HOSTILE}/none.yaml", code=2),
    ],
    "render": [_row("render", JOB), _row("render", JOB, "-o", "json"), _row("render", "wrong.yaml", code=2)],
    "explain": [
        _row("explain", JOB),
        _row("explain", JOB, "--json"),
        _row("explain", JOB, HOSTILE, code=2),
        _row("explain", "broken.yaml", code=2),
    ],
    "plugins": [_row("plugins", shows=False), _row("plugins", HOSTILE, code=2)],
    "run": [
        _row("run", JOB, logs=True, code=3),
        _row("run", JOB, "--json", code=3),
        _row("run", "lost.yaml", code=127),
        _row("run", "outside.yaml", code=2),
        _row("run", "image.yaml", code=2),
        _row("run", "wrong.yaml", code=2),
        _row("run", "settings/job.yaml", code=2),
    ],
    "submit": [_row("submit", "wrong.yaml", code=2), _row("submit", "outside.yaml", code=2)],
    "ps": [
        _row("ps", "-a", shows=False),
        _row("ps", "-a", "-o", "wide"),
        _row("ps", "-a", "--json"),
        _row("ps", "-a", "-o", "yaml"),
        _row("ps", "-a", "-o", "wide", "-w", until="hostile:1", code=130),
    ],
    "get": [_row("get", "hostile"), _row("get", "hostile", "-o", "json"), _row("get", HOSTILE, code=2)],
    "logs": [
        _row("logs", "hostile", logs=True),
        _row("logs", "hostile", "-t", logs=True),
        _row("logs", "hostile", "--json"),
        _row("logs", "live", "-f", logs=True, until="up", code=130),
        _row("logs", "hostile", "--grep", f"({HOSTILE}", code=2),
    ],
    "attach": [
        _row("attach", "hostile", code=3),
        _row("attach", "lost", code=127),
        _row("attach", "live", until="Running", shows=False),
        _row("attach", HOSTILE, code=2),
    ],
    "detach": [_row("detach", HOSTILE, code=2)],
    "wait": [_row("wait", "hostile", "--json", code=100), _row("wait", HOSTILE, code=102)],
    "why": [
        _row("why", "hostile"),
        _row("why", "hostile/w-0", shows=False),
        _row("why", "lost"),
        _row("why", "lost/w-0"),
        _row("why", "lost", "-o", "json"),
        _row("why", "lost", "-o", "yaml"),
    ],
    "history": [
        _row("history", shows=False),
        _row("history", "hostile:1", shows=False),
        _row("history", "lost:1", "--events", shows=False),
        _row("history", "lost:1", "--events", "-o", "json"),
    ],
    "top": [
        _row("top", "hostile", shows=False),
        _row("top", "live", shows=False, until="live:1", code=130),
        _row("top", HOSTILE, code=2),
    ],
    "stop": [_row("stop", HOSTILE, code=2)],
    "suspend": [_row("suspend", HOSTILE, code=2)],
    "resume": [_row("resume", "hostile", "--with", "wrong.yaml", code=2)],
    "restart": [_row("restart", HOSTILE, code=2)],
    "scale": [_row("scale", "live", f"{HOSTILE}=1", code=2)],
    # What a command in a pod writes is for the terminal: see `test_exec_is_untouched`.
    "exec": [_row("exec", "live/w-0", "--", f"/no/{HOSTILE}", code=127), _row("exec", HOSTILE, "--", "ls", code=2)],
    "cp": [_row("cp", "live/w-0:/data", "copied"), _row("cp", f"live/w-0:/{HOSTILE}", "copied", code=2)],
    "rm": [_row("rm", HOSTILE, code=2)],
    "clean": [
        _row("clean", "--dry-run", "--older-than", "0d", shows=False),
        _row("clean", "--max-size", HOSTILE, code=2),
    ],
    "service": [_row("service", "status", shows=False), _row("service", "log", shows=False)],
    "export": [
        _row("export", "hostile", "-o", "-", shows=False, code=2),
        _row("export", "hostile", "-o", f"{HOSTILE}.tar"),
    ],
    "replay": [_row("replay", "hostile"), _row("replay", "lost")],
    "ui": [_row("ui", "--port", HOSTILE, code=2)],
    "open": [_row("open", HOSTILE, code=2)],
    "forward": [_row("forward", f"live/{HOSTILE}", "80", code=2), _row("forward", "live/w-0", HOSTILE, code=2)],
    "contexts": [_row("contexts", "--kubeconfig", HOSTILE, code=2)],
    "nodes": [_row("nodes", "--on", HOSTILE, shows=False, code=2)],
    "image": [
        _row("image", "list"),
        _row("image", "list", "--json"),
        _row("image", "add", f"box={HOSTILE}", code=2),
        _row("image", "rm", HOSTILE, code=2),
    ],
    "simulate": [
        _row("simulate", JOB, shows=False),
        _row("simulate", JOB, "-s", "scenario.yaml", code=2),
        _row("simulate", JOB, "--fail", f"{HOSTILE}@1s", code=2),
    ],
    "webhook": [_row("webhook", "--kubeconfig", HOSTILE, code=2)],
    "install": [_row("install", "--namespace", HOSTILE, code=2)],
    "controller": [_row("controller", "--kubeconfig", HOSTILE, code=2)],
    "schema": [_row("schema", shows=False)],
    "completion": [_row("completion", "--names", "runs", shows=False), _row("completion", HOSTILE, code=2)],
}


def _jobs(directory: Path) -> dict[str, Manifest]:
    """Return Jobs by file: their commands, variables, annotations, paths and images have the payloads."""
    env = [{"name": f"P{number}", "value": text} for number, text in enumerate(PAYLOADS.values())]
    env += [{"name": name, "value": FORGED} for name in ("RANK", "WORLD_SIZE")]
    container = {
        "args": [FORGED],
        "env": env,
        "volumeMounts": [{"name": "data", "mountPath": f"/srv/{FORGED}"}],
    }
    prints = "cat lines; cat message > /dev/termination-log; exit 3"
    hostile = task("w", prints, container=container, pod={"volumes": [{"name": "data", "emptyDir": {}}]})
    hostile["template"]["metadata"] = {"annotations": {"canary": NUL}}
    lost = task("w", "", container={"command": [f"/no/such/{FORGED}"]})
    outside = {"volumes": [{"name": "v", "hostPath": {"path": str(directory.parent / f"outside-{FORGED}")}}]}
    mounted = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    wrong = job(task(FORGED, "true", container={"name": NUL, FORGED: 1, "imagePullPolicy": [FORGED]}))
    volume = {"volumes": [{"name": "data", "emptyDir": {}}]}
    data = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    live = task("w", "cat lines; python3 names.py && exec sleep 1000", container=data, pod=volume)
    named = {
        JOB: ("hostile", job(hostile)),
        "lost.yaml": ("lost", job(lost)),
        "image.yaml": ("image", job(task("w", "true", container={"image": FORGED}))),
        "outside.yaml": ("outside", job(task("w", "true", container=mounted, pod=outside))),
        "wrong.yaml": ("wrong", {**wrong, HOSTILE: 1}),
        "live.yaml": ("live", job(live)),
        "settings/job.yaml": ("settings", job(task("w", "true"))),
    }
    return {
        file: {**found, "metadata": {"name": name, "annotations": {"a": NUL}}} for file, (name, found) in named.items()
    }


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Terminal]:
    """A user with a run that printed and named everything, one that did not start, and one that goes on."""
    need_namespaces()
    home = tmp_path_factory.mktemp("home")
    directory = home / "project"
    directory.mkdir()
    for name in ("settings", f"root-{HOSTILE}", f"../outside-{FORGED}"):
        (directory / name).mkdir()
    for file, document in _jobs(directory).items():
        (directory / file).write_text(yaml.safe_dump(document))
    (directory / "settings" / "pumice.toml").write_text(f"{QUOTED} = 1\n")
    (directory / "broken.yaml").write_text(f"{QUOTED}: 1\n{QUOTED}: 2\n")
    (directory / "scenario.yaml").write_text(yaml.safe_dump({"steps": [], "description": FORGED, FORGED: 1}))
    (directory / "lines").write_bytes(b"".join(line + b"\n" for line in LINES))
    (directory / "message").write_bytes(NUL.encode())
    (directory / "names.py").write_text(NAMES)
    with open_terminal(directory) as found:
        found.workspace.environ |= {"TERM": "xterm", "LANG": "C.UTF-8", "COLUMNS": "400", "HOME": str(home)}
        found("run", JOB, "--note", HOSTILE, code=3)
        found("run", "lost.yaml", code=127)
        found("submit", "live.yaml")
        found("image", "add", f"box=root-{HOSTILE}")
        found.until(lambda: "up\n" in found("logs", "live", code=None).out)
        yield found


def test_the_table_has_every_command() -> None:
    assert sorted(ROWS) == sorted(COMMANDS)
    assert [row.name for name, rows in ROWS.items() for row in rows if row.words[0] != name] == []


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for rows in ROWS.values() for row in rows])
def test_a_terminal_shows_what_a_job_wrote_and_obeys_nothing(terminal: Terminal, row: Row) -> None:
    code, shown = _on_terminal(terminal, row.words, until=row.until)
    assert code == row.code, shown
    text = OWN.sub("", shown.decode())
    if row.logs:
        assert COLOUR in text, "log lines keep their colours"
        text = text.replace(COLOUR, "")
    assert [each for each in text if _is_hidden(each)] == [], ascii(text)
    assert [line for line in text.split("\n") if line.startswith("forged")] == []
    assert not row.shows or "canary" in text


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("explain", JOB, "--json"), id="explain"),
        pytest.param(("logs", "hostile:1", "--json"), id="logs"),
        pytest.param(("get", "hostile:1", "-o", "json"), id="get"),
        pytest.param(("why", "lost:1", "-o", "json"), id="why"),
        pytest.param(("render", JOB, "-o", "json"), id="render"),
        pytest.param(("validate", "wrong.yaml", "--json"), id="validate"),
    ],
)
def test_json_is_the_same_data_on_a_terminal_and_has_hidden_characters_in_a_pipe(
    terminal: Terminal, words: Sequence[str]
) -> None:
    with Path(os.devnull).open("w") as null:
        _, shown = _on_terminal(terminal, words, err=null.fileno())
    piped = terminal(*words, code=None).out
    assert "\u202e" in piped
    assert list(_documents(shown.decode())) == list(_documents(piped))


def _documents(text: str) -> Iterator[object]:
    decoder, start = json.JSONDecoder(), 0
    while text[start:].strip():
        found, end = decoder.raw_decode(text, start)
        yield found
        start = end + len(text[end:]) - len(text[end:].lstrip())


@pytest.mark.parametrize(
    "words", [pytest.param(("render", JOB), id="render"), pytest.param(("get", "hostile:1"), id="get")]
)
def test_yaml_is_the_same_text_on_a_terminal(terminal: Terminal, words: Sequence[str]) -> None:
    piped = terminal(*words).out
    assert _on_terminal(terminal, words)[1].decode() == piped
    assert f"{FORGED!r}" in repr(list(yaml.safe_load_all(piped)))


def test_logs_in_a_pipe_are_what_was_written(terminal: Terminal) -> None:
    with (terminal.workspace.directory / "piped").open("w+b") as file:
        workspace = terminal.workspace
        words = ["logs", "hostile:1", "--no-prefix"]
        done = fork_server(*MODULES).start(words, cwd=workspace.directory, env=workspace.env, out=file.fileno())
        assert done.wait(PATIENCE) == 0
        file.seek(0)
        written = [line for line in LINES if b"\r" not in line]
        # A byte that is not UTF-8 is replaced; a line that was overwritten has its last state.
        written[-1] = written[-1].replace(b"\x9b", "\N{REPLACEMENT CHARACTER}".encode())
        found = file.read().splitlines()
    assert [line for line in found if line != b"b end"] == written


def test_exec_is_untouched(terminal: Terminal) -> None:
    """What a command in a pod writes is for the terminal, as by ssh: full-screen programs need it."""
    code, shown = _on_terminal(terminal, ["exec", "live/w-0", "--", "printf", r"\033[2J\033]0;canary\a"], entered=True)
    assert (code, shown) == (0, b"\x1b[2J\x1b]0;canary\x07")


def test_the_holes_of_a_sparse_message_are_not_shown(terminal: Terminal) -> None:
    script = "echo last; truncate -s 1T /dev/termination-log; exit 4"
    terminal("run", terminal.workspace.write(job(task("w", script)), name="sparse.yaml"), code=4)
    assert "  last line     last\n" in terminal("why", "trial").out


def _is_hidden(character: str) -> bool:
    """Return whether a terminal may obey a character or show nothing for it; scripts and emoji need the joiners."""
    category = unicodedata.category(character)
    return category in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in "\n\t\u200c\u200d"


def _on_terminal(
    terminal: Terminal, words: Sequence[str], *, err: int | None = None, entered: bool = False, until: str = ""
) -> tuple[int, bytes]:
    """Run a command whose output is a terminal that changes none of it; return its exit code and all that it wrote."""
    near, far = pty.openpty()
    settings = termios.tcgetattr(far)
    settings[1] &= ~termios.OPOST
    termios.tcsetattr(far, termios.TCSANOW, settings)
    ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 400, 0, 0))
    workspace, stdin = terminal.workspace, far if entered else None
    process = fork_server(*MODULES).start(
        words, cwd=workspace.directory, env=workspace.env, out=far, err=err, stdin=stdin
    )
    os.close(far)
    shown = b""
    try:
        while select.select([near], [], [], PATIENCE)[0] and (chunk := os.read(near, 65536)):
            shown += chunk
            if until and until.encode() in shown:
                process.send_signal(signal.SIGINT)
                until = ""
    except OSError:
        # Nobody has the other end open any more.
        pass
    os.close(near)
    return process.wait(PATIENCE), shown
