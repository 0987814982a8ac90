"""The completion scripts of bash, zsh and fish, written from what the commands declare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct


class Values(Struct, frozen=True):
    """What may stand for an argument: words, files, or names that `pumice completion --names` prints."""

    words: tuple[str, ...] = ()
    files: bool = False
    names: str = ""


class Flag(Struct, frozen=True):
    names: tuple[str, ...]
    help: str
    values: Values | None  # None: it takes none


class CommandWords(Struct, frozen=True):
    name: str
    summary: str
    flags: tuple[Flag, ...]
    operands: tuple[Values, ...]
    repeats: bool  # the last operand


_GLOBAL: Final = (
    Flag(("-h", "--help"), "show the commands", None),
    Flag(("--version",), "print the version", None),
)

_BASH: Final = r"""# Completion of pumice for bash: source <(pumice completion bash)
_pumice_values() { # the command, and a flag or the position of an operand
    local words= line
    case "$1 $2" in
@VALUES@
    *) return 0 ;;
    esac
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -W "$words" -- "$cur")
}

_pumice_files() {
    local line
    compopt -o filenames 2> /dev/null
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$cur")
}

_pumice() {
    local cur=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} flags= valued= line whole= index position=1 most=0
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -W "@COMMANDS@" -- "$cur")
        return
    fi
    case $command in
@FLAGS@
    *) return ;;
    esac
    # Readline takes --flag=value, NAME:N and @last apart.
    if [[ $cur == = ]]; then
        cur=
    elif [[ $last == = ]]; then
        last=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $cur == [:@] || $last == [:@] ]]; then
        whole=${COMP_LINE:0:COMP_POINT}
        whole=${whole##*[[:space:]]}
        last= cur=$whole
        if [[ $whole == *:* ]]; then ((position--)); fi
    fi
    if [[ " $valued " == *" $last "* ]]; then
        _pumice_values "$command" "$last"
    elif [[ $cur == -* ]]; then
        while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -W "$flags" -- "$cur")
    else
        for ((index = 2; index < COMP_CWORD; index++)); do
            if [[ " $valued " == *" ${COMP_WORDS[index]} "* ]]; then
                ((index++))
                if [[ ${COMP_WORDS[index]} == = ]]; then ((index++)); fi
            elif [[ ${COMP_WORDS[index]} == : ]]; then
                ((index++))
            elif [[ ${COMP_WORDS[index]} != [-@]* ]]; then
                # The @ of @last is a word of its own.
                ((position++))
            fi
        done
        _pumice_values "$command" "$((position < most ? position : most))"
        if [[ -n $whole ]]; then
            # Only what follows the colon is replaced.
            for index in "${!COMPREPLY[@]}"; do COMPREPLY[index]=${COMPREPLY[index]#"${whole%"${whole##*:}"}"}; done
        fi
    fi
}

complete -F _pumice pumice
"""

_ZSH: Final = r"""#compdef pumice
# Completion of pumice for zsh: source <(pumice completion zsh), or a file _pumice in a directory of $fpath
_pumice_names() {
    local -a names
    names=(${(f)"$("$program" completion --names "$*" 2> /dev/null)"})
    compadd -a names
}

_pumice() {
    local program=$words[1] curcontext=$curcontext state line
    local -a commands
    commands=(
@COMMANDS@
    )
    _arguments -C '(-)'{-h,--help}'[show the commands]' '(-)--version[print the version]' \
        '1:command:->command' '*::argument:->argument'
    case $state in
    command) _describe command commands ;;
    argument)
        case $line[1] in
@FLAGS@
        esac
        ;;
    esac
}

if [[ $funcstack[1] == _pumice ]]; then
    _pumice "$@"
else
    compdef _pumice pumice
fi
"""

_FISH: Final = r"""# Completion of pumice for fish: pumice completion fish > ~/.config/fish/completions/pumice.fish
function __pumice_command
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv[1]
end
function __pumice_position # of the operand that is being written, for a command and its flags with a value
    __pumice_command $argv[1]; or return 1
    set -l position 1
    set -l skip no
    for word in (commandline -opc)[3..]
        if test $skip = yes
            set skip no
        else if contains -- $word $argv[4..]
            set skip yes
        else if not string match -q -- '-*' $word
            set position (math $position + 1)
        end
    end
    test $position -eq $argv[2]; or test $argv[3] = more -a $position -gt $argv[2]
end
function __pumice_names
    set -l words (commandline -opc)
    $words[1] completion --names "$argv" 2>/dev/null
end
complete -c pumice -f
complete -c pumice -n 'test (count (commandline -opc)) -eq 1' -s h -l help -d 'show the commands'
complete -c pumice -n 'test (count (commandline -opc)) -eq 1' -l version -d 'print the version'
"""


def bash(commands: Sequence[CommandWords]) -> str:
    values, flags = [], []
    for command in commands:
        named = [(name, flag.values) for flag in command.flags for name in flag.names]
        operands = [(str(number), each) for number, each in enumerate(command.operands, 1)]
        for name, each in (*named, *operands):
            if each is not None and each.files:
                values.append(f'    "{command.name} {name}") _pumice_files ;;')
            elif each is not None and each.names:
                asked = f"\"${{COMP_WORDS[0]}}\" completion --names '{each.names}' 2> /dev/null"
                values.append(f'    "{command.name} {name}") words=$({asked}) ;;')
            elif each is not None and each.words:
                values.append(f'    "{command.name} {name}") words="{" ".join(each.words)}" ;;')
        valued = " ".join(name for name, each in named if each is not None)
        most = len(command.operands) if command.repeats else len(command.operands) + 1
        flags.append(
            f'    {command.name}) flags="{" ".join(name for name, _ in named)}" valued="{valued}" most={most} ;;'
        )
    words = " ".join([*(command.name for command in commands), *(name for flag in _GLOBAL for name in flag.names)])
    return _filled(_BASH, COMMANDS=[words], VALUES=values, FLAGS=flags)


def zsh(commands: Sequence[CommandWords]) -> str:
    described = [f"        {_quoted(f'{command.name}:{command.summary}')}" for command in commands]
    cases = []
    for command in commands:
        specs = [spec for flag in command.flags for spec in _zsh_flag(flag)]
        for number, each in enumerate(command.operands, 1):
            is_last = number == len(command.operands) and command.repeats
            specs.append(_quoted(f"{'*' if is_last else number}:argument:{_zsh_values(each)}"))
        cases.append("\n".join([f"        {command.name})", "            _arguments -s \\"]))
        cases += [f"                {spec}{' ' + chr(92) if spec is not specs[-1] else ''}" for spec in specs]
        cases.append("            ;;")
    return _filled(_ZSH, COMMANDS=described, FLAGS=cases)


def _zsh_flag(flag: Flag) -> Iterator[str]:
    """A specification of `_arguments` for each spelling; any flag may be repeated."""
    text = flag.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    for name in flag.names:
        if flag.values is None:
            yield _quoted(f"*{name}[{text}]")
        else:
            equals = "=" if name.startswith("--") else ""
            yield _quoted(f"*{name}{equals}[{text}]:value:{_zsh_values(flag.values)}")


def _zsh_values(values: Values) -> str:
    if values.files:
        return "_files"
    if values.names:
        return f"{{_pumice_names {values.names}}}"
    return f"({' '.join(values.words)})" if values.words else " "


def fish(commands: Sequence[CommandWords]) -> str:
    lines = []
    for command in commands:
        first = "-n 'test (count (commandline -opc)) -eq 1'"
        lines.append(f"complete -c pumice {first} -a {command.name} -d {_quoted(command.summary, fish=True)}")
        here = f"-n '__pumice_command {command.name}'"
        for flag in command.flags:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
            takes = "" if flag.values is None else f" -r{_fish_values(flag.values)}"
            lines.append(f"complete -c pumice {here} {names}{takes} -d {_quoted(flag.help, fish=True)}")
        valued = " ".join(name for flag in command.flags if flag.values is not None for name in flag.names)
        for number, each in enumerate(command.operands, 1):
            more = "more" if number == len(command.operands) and command.repeats else "one"
            here = f"-n '__pumice_position {command.name} {number} {more} {valued}'"
            if each != Values():
                lines.append(f"complete -c pumice {here}{_fish_values(each)}")
    return _FISH + "\n".join([*lines, ""])


def _fish_values(values: Values) -> str:
    if values.files:
        return " -F"
    if values.names:
        return f" -f -a '(__pumice_names {values.names})'"
    return f" -f -a '{' '.join(values.words)}'" if values.words else " -f"


def _quoted(text: str, *, fish: bool = False) -> str:
    if fish:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return "'" + text.replace("'", "'\\''") + "'"


def _filled(script: str, **lines: list[str]) -> str:
    for name, each in lines.items():
        script = script.replace(f"@{name}@", "\n".join(each))
    return script


SCRIPTS: Final[dict[str, Callable[[Sequence[CommandWords]], str]]] = {"bash": bash, "zsh": zsh, "fish": fish}
