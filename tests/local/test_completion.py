"""Completion in the real shells: a line is typed, then Tab and Enter, and the program prints its words."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shlex
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.unit.cli.running import COMMAND

# What is started by the shell: it prints its words, but answers what the scripts ask.
PROGRAM = """\
#!/bin/sh
if [ "$2" = --names ]; then exec {command} "$@"; fi
printf 'TYPED'
printf ' [%s]' "$@"
echo ' END'
"""
# Nothing listens there.
KUBECONFIG = """\
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: prod-east, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
"""
SHELLS = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i"),
}
BEGIN = {
    "bash": "bind 'set bell-style none'; source {}",
    "zsh": "autoload -Uz compinit; compinit -u -D; source {}",
    "fish": "source {}",
}
# What is typed before Tab, and the words that come of it.
LINES = {
    "pumice valid": ["validate"],
    "pumice --vers": ["--version"],
    "pumice validate --volc": ["validate", "--volcano"],
    "pumice validate my": ["validate", "my job.yaml"],
    "pumice validate a.yaml --json my": ["validate", "a.yaml", "--json", "my job.yaml"],
    "pumice run --network outb": ["run", "--network", "outbound"],
    "pumice run --network=outb": ["run", "--network=outbound"],
    "pumice run --env-file my": ["run", "--env-file", "my job.yaml"],
    "pumice run --timeout 1h --workdir": ["run", "--timeout", "1h", "--workdir-read-only"],
    "pumice simulate a.yaml -s my": ["simulate", "a.yaml", "-s", "my job.yaml"],
    "pumice init --framework tens": ["init", "--framework", "tensorflow"],
    "pumice plugins pyt": ["plugins", "pytorch"],
    "pumice plugins --json tens": ["plugins", "--json", "tensorflow"],
    "pumice image lis": ["image", "list"],
    "pumice image rm busy": ["image", "rm", "busybox-for-tests"],
    "pumice completion z": ["completion", "zsh"],
    "pumice get @l": ["get", "@last"],
    "pumice wait @last resn": ["wait", "@last", "resnet"],
    "pumice get resn": ["get", "resnet"],
    "pumice get resnet:": ["get", "resnet:7"],
    "pumice wait other:1 --timeout 1m resnet:": ["wait", "other:1", "--timeout", "1m", "resnet:7"],
    "pumice logs -f resnet:": ["logs", "-f", "resnet:7"],
    "pumice get --on pro": ["get", "--on", "prod-east"],
    "pumice ps -a --context=pro": ["ps", "-a", "--context=prod-east"],
    "pumice controller --context pro": ["controller", "--context", "prod-east"],
    # The cluster does not answer.
    "pumice get --on prod-east resn": ["get", "--on", "prod-east", "resn"],
    # Nothing fits, and no file is offered where none may stand.
    "pumice run --timeout my": ["run", "--timeout", "my"],
    "pumice explain a.yaml my": ["explain", "a.yaml", "my"],
}


class Shell:
    """A shell on a terminal of its own."""

    def __init__(self, name: str, cwd: Path, environ: dict[str, str]) -> None:
        self._near, far = pty.openpty()
        self.process = subprocess.Popen(
            SHELLS[name],
            cwd=cwd,
            env=environ,
            stdin=far,
            stdout=far,
            stderr=far,
            start_new_session=True,
            # Shells want a terminal that controls them.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - nothing is locked that it needs
        )
        os.close(far)
        self._output = ""

    def type(self, keys: str) -> None:
        os.write(self._near, keys.encode())

    def read_until(self, words: str) -> str:
        """Return what came before these words, without them."""
        deadline = time.monotonic() + PATIENCE
        while words not in self._output:
            left = deadline - time.monotonic()
            assert select.select([self._near], [], [], max(left, 0))[0], f"no {words!r} in {self._output!r}"
            self._output += os.read(self._near, 65536).decode(errors="replace")
        before, _, self._output = self._output.partition(words)
        return before

    def close(self) -> None:
        os.close(self._near)
        self.process.wait(timeout=PATIENCE)


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.needs(name)) for name in SHELLS])
def shell(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("a shell")
    (folder / "my job.yaml").touch()
    (folder / "image").mkdir()
    (folder / "bin").mkdir()
    program = folder / "bin" / "pumice"
    environ = {
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "TERM": "dumb",
        "LANG": "C.UTF-8",
    }
    own = {**environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    program.write_text(PROGRAM.format(command=shlex.join(["env", f"PYTHONPATH={own['PYTHONPATH']}", *COMMAND])))
    program.chmod(0o755)
    subprocess.run([*COMMAND, "image", "add", "busybox-for-tests=image"], cwd=folder, env=own, check=True)
    for run in ("resnet/7", "other/1", "other/2"):
        (folder / "state" / "pumice" / "runs" / "default" / run).mkdir(parents=True)
    (folder / ".kube").mkdir()
    (folder / ".kube" / "config").write_text(KUBECONFIG)
    script = folder / f"pumice.{request.param}"
    with script.open("w") as output:
        subprocess.run([*COMMAND, "completion", request.param], env=own, stdout=output, check=True)
    started = Shell(request.param, folder, environ)
    started.type(f"{BEGIN[request.param].format(shlex.quote(str(script)))}; pumice ready\n")
    started.read_until("TYPED [ready] END")
    yield started
    started.close()


# Lines that ask the program for names, which takes long; others of their kind stay in `make test`.
ASKING = (
    "pumice get @l",
    "pumice wait @last resn",
    "pumice get resnet:",
    "pumice logs -f resnet:",
    "pumice ps -a --context=pro",
    "pumice controller --context pro",
)


@pytest.mark.parametrize(
    "line", [pytest.param(line, marks=pytest.mark.soak if line in ASKING else ()) for line in LINES]
)
def test_a_word_is_completed(line: str, shell: Shell) -> None:
    shell.type(f"{line}\t\n")
    shell.read_until("TYPED ")
    assert shell.read_until(" END") == " ".join(f"[{word}]" for word in LINES[line])
