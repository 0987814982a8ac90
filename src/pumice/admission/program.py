"""Which program a command line runs: `torchrun --nproc-per-node 2 train.py` and `python3 -u train.py` run `train.py`.

Wrappers (`env`, `nohup`), launchers (`mpirun`, `torchrun`) and interpreters are skipped with their options. Of
`sh -c SCRIPT`, it is the program of the command that uses `"$@"`, else of the last one that is no utility.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from pumice.admission.shell_script import ShellCommand, commands, uses_arguments

_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_PYTHON: Final = re.compile(r"(?:python|pypy)[0-9.]*t?")
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_SHELL_VALUE: Final = re.compile(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file")
# The words of a shell around commands.
_KEYWORDS: Final = frozenset(
    {"then", "do", "else", "elif", "if", "while", "until", "{", "!", "done", "fi", "esac", "}"}
)
# By wrapper, its options that have a value, and the number of its own words before the command.
_WRAPPERS: Final[dict[str, tuple[str, int]]] = {
    "exec": ("-a", 0),
    "command": ("", 0),
    "time": ("-f -o", 0),
    "env": ("-u -C --unset --chdir", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "nice": ("-n", 0),
    "ionice": ("-c -n", 0),
    "stdbuf": ("-i -o -e", 0),
    "timeout": ("-s -k", 1),
    "taskset": ("", 1),
    "numactl": ("-N -m -C -i", 0),
    "sudo": ("-u -g", 0),
    "gosu": ("", 1),
    "su-exec": ("", 1),
    "tini": ("-e -p", 0),
    "dumb-init": ("", 0),
    "busybox": ("", 0),
}
# Tools that run a program in an environment, by `run`, with their options that have a value.
_RUNNERS: Final[dict[str, str]] = {
    "uv": "-p --python --with --with-editable --with-requirements --extra --group --env-file --project --directory",
    "poetry": "-C --directory -P --project",
    "pipenv": "",
    "pdm": "-p --project",
    "hatch": "-e --env",
    "rye": "",
    "pixi": "-e --environment --manifest-path",
    **dict.fromkeys(("conda", "mamba", "micromamba"), "-n --name -p --prefix --cwd"),
}
_LAUNCHERS: Final = frozenset(
    {"torchrun", "mpirun", "mpiexec", "orterun", "srun", "horovodrun", "deepspeed", "accelerate", "accelerate-launch"}
)
_LAUNCHER_MODULES: Final = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner"}
)
# Options of launchers without a value; all others have one, unless an option follows.
_SWITCH_NAMES: Final = (
    "--standalone --no-python --no_python --use-env --use_env --allow-run-as-root --oversubscribe --nooversubscribe "
    "--report-bindings --tag-output --timestamp-output --display-map --verbose -v -q --quiet --multi-gpu --multi_gpu "
    "--cpu --use-fsdp --use_fsdp --use-deepspeed --use_deepspeed --same-network --same_network --no_local_rank "
    "--no-local-rank --exclusive --gloo --mpi"
)
_SWITCHES: Final = frozenset(_SWITCH_NAMES.split())
_TWO_VALUES: Final = frozenset({"--mca", "-mca", "--gmca", "-genv", "-env"})
_MODULE: Final = ("-m", "--module")
_TARGET: Final = re.compile(r"-[A-Za-z]*([mc])")
_UTILITY_MODULES: Final = frozenset({"http.server", "pip", "tensorboard.main"})
_ATTACHED: Final = re.compile(r"-[A-Za-z][0-9]+")
_PYTHON_VALUES: Final = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_INTERPRETERS: Final = frozenset({"perl", "ruby", "node", "julia", "Rscript", "java", "lua"})
_INTERPRETER_VALUES: Final = frozenset({"-cp", "-classpath", "--class-path", "-t", "--threads", "-I", "-o", "-O"})
# Programs that serve or prepare others.
_UTILITY_NAMES: Final = (
    "sleep tail cat true false : echo printf test [ set export unset cd pushd popd mkdir rm mv cp ln touch chmod "
    "chown source . trap ulimit umask wait exit return shift local read eval nc wget curl ssh scp rsync ssh-keygen "
    "service sshd tensorboard redis-server memcached nginx mongod postgres mysqld etcd supervisord jupyter "
    "jupyter-lab ray tar unzip git pip pip3 conda apt-get apk date hostname env id whoami ls df free nvidia-smi tee "
    "grep sed awk head sort seq kill for case select function"
)
_UTILITIES: Final = frozenset(_UTILITY_NAMES.split())


class Program(Struct, frozen=True):
    """`name` is a path, `-m MODULE`, or the code after `-c`. A utility is seldom what arguments are for."""

    name: str
    is_utility: bool = False

    def is_same(self, other: Program) -> bool:
        """Return whether both are the same; a relative path may be the end of an absolute one."""
        short, long = sorted((self.name, other.name), key=len)
        return short == long or (not short.startswith("/") and long.startswith("/") and long.endswith(f"/{short}"))


def program(words: Sequence[str], directory: str = "") -> Program:
    """Return the program of a command line, whose relative paths begin at a directory."""
    rest = [*words[start(words) :]]
    if not rest:
        return Program("", is_utility=True)
    name, script = posixpath.basename(rest[0]), shell_script(rest)
    if script is not None:
        found = main_command(rest[script])
        return Program("", is_utility=True) if found is None else program(_simple(found), directory)
    if rest[0] in _MODULE:
        return Program(f"-m {''.join(rest[1:2])}")
    if _PYTHON.fullmatch(name):
        return _python(rest, directory)
    if name in _SHELLS | _INTERPRETERS:
        index = _past_options(rest, 1, _INTERPRETER_VALUES)
        return Program(_path(rest[index], directory)) if index < len(rest) else Program(name, is_utility=True)
    return Program(_path(rest[0], directory) if "/" in rest[0] else rest[0], name in _UTILITIES)


def start(words: Sequence[str]) -> int:
    """Return the index of the first word that belongs to no wrapper and no launcher."""
    index, before = 0, -1
    while index != before and index < len(words):
        before, index = index, _past(words, index)
    return index


def shell_script(words: Sequence[str]) -> int | None:
    """Return the index of the script of `sh -c SCRIPT`, behind wrappers and launchers; None if there is none."""
    shell = start(words)
    if shell >= len(words) or posixpath.basename(words[shell]) not in _SHELLS:
        return None
    runs_text = False
    for index in range(shell + 1, len(words)):
        word = words[index]
        if word[:1] in ("-", "+") and len(word) > 1 and word != "--":
            runs_text = runs_text or (word[:1] == "-" and word[:2] != "--" and "c" in word)
        elif not _SHELL_VALUE.fullmatch(words[index - 1]) and word != "--":
            return index if runs_text else None
    return None


def main_command(script: str) -> ShellCommand | None:
    """Return the command of a script that its arguments are for; None if it has none."""
    every = [each for each in commands(script) if _simple(each)]
    using = [each for each in every if uses_arguments(each.text)]
    own = [each for each in every if not program(_simple(each)).is_utility]
    return next(reversed(using or own or every), None)


def _simple(command: ShellCommand) -> Sequence[str]:
    """Return the words of a command without what a shell reads before it."""
    words = command.words
    first = (index for index, word in enumerate(words) if not _ASSIGNMENT.match(word) and word not in _KEYWORDS)
    return words[next(first, len(words)) :]


def _past(words: Sequence[str], index: int) -> int:
    """Return the index past a wrapper or a launcher with its options; the same if there is none."""
    name = posixpath.basename(words[index])
    if name in _WRAPPERS:
        valued, own = _WRAPPERS[name]
        index = _past_options(words, index + 1, valued.split()) + own
        while name == "env" and index < len(words) and _ASSIGNMENT.match(words[index]):
            index += 1
        return index
    if name in _RUNNERS and words[index + 1 : index + 2] == ["run"]:
        return _past_options(words, index + 2, _RUNNERS[name].split())
    if _PYTHON.fullmatch(name):
        module = _python_target(words, index + 1)
        is_launcher = _kind(words, module) == "m" and set(words[module + 1 : module + 2]) & _LAUNCHER_MODULES
        return _past_launcher(words, index, module + 2) if is_launcher else index
    if name not in _LAUNCHERS:
        return index
    return _past_launcher(words, index, index + (2 if "launch" in words[index + 1 : index + 2] else 1))


def _past_launcher(words: Sequence[str], launcher: int, index: int) -> int:
    """Return the index of the program that a launcher starts; that of the launcher if it names none."""
    while index < len(words) and words[index].startswith("-") and words[index] not in _MODULE:
        word = words[index]
        index += 1
        if "=" in word or word in _SWITCHES or _ATTACHED.fullmatch(word):
            continue
        if word == "--":
            break
        for _ in range(2 if word in _TWO_VALUES else 1):
            index += index < len(words) and not words[index].startswith("-")
    return index if index < len(words) else launcher


def _python(words: Sequence[str], directory: str) -> Program:
    index = _python_target(words, 1)
    kind, value = _kind(words, index), "".join(words[index + 1 : index + 2])
    if kind == "m":
        return Program(f"-m {value}", value in _UTILITY_MODULES)
    if kind == "c":
        return Program(value, is_utility=True)
    return Program(_path(words[index], directory)) if index < len(words) else Program("python", is_utility=True)


def _python_target(words: Sequence[str], index: int) -> int:
    """Return the index of `-m`, `-c` or the script, behind other options of Python."""
    while index < len(words) and words[index].startswith("-") and not _kind(words, index):
        index += 2 if words[index] in _PYTHON_VALUES else 1
    return index


def _kind(words: Sequence[str], index: int) -> str:
    """Return m or c if a word of Python's is `-m` or `-c`, also behind other letters: `-um`."""
    match = _TARGET.fullmatch(words[index]) if index < len(words) else None
    return match[1] if match is not None else ""


def _past_options(words: Sequence[str], index: int, valued: Collection[str]) -> int:
    while index < len(words) and words[index].startswith("-"):
        if words[index] == "--":
            return index + 1
        index += 2 if words[index] in valued else 1
    return index


def _path(name: str, directory: str) -> str:
    """Return a path from the root or relative; of `$HOME/src/train.py` it is what follows the variable."""
    _, dollar, rest = name.rpartition("$")
    if dollar and "/" in rest:
        return posixpath.normpath(rest.partition("/")[2])
    return posixpath.normpath(posixpath.join(directory, name))
