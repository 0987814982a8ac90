"""`pumice completion SHELL`: prints the script by which bash, zsh or fish completes the words of `pumice`.

The script follows from what the commands declare. What only this machine knows, such as the names of images, the script
asks for at the moment, with `--names`.

No library serves: argcomplete (3.7) starts Python for each Tab and does not complete operands that follow flags; with
shtab (1.13), zsh reads the names of runs only when the script is loaded, and bash completes neither `NAME:` nor
`--flag=value`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from pumice.cli.errors import BAD_INPUT, print_error, refuse
from pumice.cli.main import COMMANDS, load_command
from pumice.cli.offline.completion_names import KINDS, Line, names
from pumice.store.run_errors import RunError

# The metavars of arguments that are paths.
_PATHS: Final = ("FILE", "JOB", "SCRIPT", "DIR", "PATH", "PATH[:ro]", "PREFIX", "SOURCE", "TARGET")
_FILES: Final = "files"


# The arguments whose values are names: by metavar, or by command and name.
_NAMED: Final = {
    "RUN": "runs",
    "NAME|RUN": "runs",
    "RUN|POD": "runs",
    "exec pod": "pods",
    "forward pod": "pods",
    "plugins name": "plugins",
    "image operands": "images",
    "CONTEXT": "contexts",
    "controller context": "contexts",
    "webhook context": "contexts",
    "install context": "contexts",
}


class _Argument(Struct, frozen=True):
    """A flag, or an operand, which has no flags. `values` is what may stand for it; None if it takes no value."""

    flags: tuple[str, ...]
    help: str
    values: str | tuple[str, ...] | None  # `files`, one of `KINDS`, or words
    repeats: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=tuple(SCRIPTS), help=", ".join(SCRIPTS))
    about = f"for the scripts: print these names, one per line: {', '.join(KINDS)}"
    parser.add_argument("--names", choices=KINDS, metavar="KIND", help=about)
    parser.add_argument(
        "--line", nargs=argparse.REMAINDER, default=[], metavar="WORD", help="for the scripts: what is typed so far"
    )


def run(args: argparse.Namespace) -> int:
    if args.names:
        try:
            print(*names(args.names, Line.of(args.line)), sep="\n")
        except RunError as error:
            # Such as a state directory that cannot be read. The scripts ignore it.
            print_error(error)
            return BAD_INPUT
        return 0
    if not args.shell:
        return refuse("pumice completion: which shell?", f"there are {', '.join(SCRIPTS)}")
    print(SCRIPTS[args.shell]({name: _arguments(name) for name in COMMANDS}), end="")
    return 0


def _arguments(command: str) -> list[_Argument]:
    """Return what a command declares."""
    parser = argparse.ArgumentParser(add_help=False)
    load_command(command).add_arguments(parser)
    found = [_Argument(("-h", "--help"), "show the help of this command", None)]
    goes_anywhere = any("--on" in action.option_strings for action in parser._actions)  # noqa: SLF001 - as below
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them, since Python 2.7
        values: str | tuple[str, ...] | None = tuple(map(str, action.choices or ()))
        if action.option_strings and action.nargs == 0:
            values = None
        elif action.metavar in _PATHS:
            values = _FILES
        else:
            if goes_anywhere and action.metavar == "NS":
                values = "namespaces"
            values = _NAMED.get(f"{command} {action.dest}") or _NAMED.get(str(action.metavar)) or values
        flags = tuple(action.option_strings)
        found.append(_Argument(flags, action.help or "", values, repeats=action.nargs in ("+", "*")))
    return found


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
    names=(${(f)"$("$program" completion --names "$1" --line "${(@)words[1,CURRENT-1]}" 2> /dev/null)"})
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
    $words[1] completion --names "$argv" --line $words[2..] 2>/dev/null
end
complete -c pumice -f
complete -c pumice -n 'test (count (commandline -opc)) -eq 1' -s h -l help -d 'show the commands'
complete -c pumice -n 'test (count (commandline -opc)) -eq 1' -l version -d 'print the version'
"""


_Commands = dict[str, list[_Argument]]


def _operands(arguments: Sequence[_Argument]) -> list[_Argument]:
    return [each for each in arguments if not each.flags]


def _bash(commands: _Commands) -> str:
    cases, lines = [], []
    for name, arguments in commands.items():
        flags = [(flag, each.values) for each in arguments for flag in each.flags]
        operands = _operands(arguments)
        for word, values in (*flags, *((str(number), each.values) for number, each in enumerate(operands, 1))):
            if values == _FILES:
                cases.append(f'    "{name} {word}") _pumice_files ;;')
            elif isinstance(values, str):
                typed = '"${COMP_WORDS[@]:1:COMP_CWORD-1}"'
                asked = f"\"${{COMP_WORDS[0]}}\" completion --names '{values}' --line {typed} 2> /dev/null"
                cases.append(f'    "{name} {word}") words=$({asked}) ;;')
            elif values:
                cases.append(f'    "{name} {word}") words="{" ".join(values)}" ;;')
        valued = " ".join(flag for flag, values in flags if values is not None)
        most = len(operands) + (not (operands and operands[-1].repeats))
        known = " ".join(flag for flag, _ in flags)
        lines.append(f'    {name}) flags="{known}" valued="{valued}" most={most} ;;')
    words = " ".join([*commands, "-h", "--help", "--version"])
    return _filled(_BASH, COMMANDS=[words], VALUES=cases, FLAGS=lines)


def _zsh(commands: _Commands) -> str:
    def values_of(values: str | tuple[str, ...]) -> str:
        if isinstance(values, str):
            return "_files" if values == _FILES else f"{{_pumice_names {values}}}"
        return f"({' '.join(values)})" if values else " "

    described = [f"        {_quoted(f'{name}:{COMMANDS[name][1]}')}" for name in commands]
    cases = []
    for name, arguments in commands.items():
        specs = []
        for each in arguments:
            text = each.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
            for flag in each.flags:  # any may be repeated
                equals = "=" if flag.startswith("--") and each.values is not None else ""
                value = "" if each.values is None else f":value:{values_of(each.values)}"
                specs.append(_quoted(f"*{flag}{equals}[{text}]{value}"))
        for number, each in enumerate(_operands(arguments), 1):
            specs.append(_quoted(f"{'*' if each.repeats else number}:argument:{values_of(each.values or ())}"))
        cases += [f"        {name})", "            _arguments -s \\"]
        cases += [
            *(f"                {spec} \\" for spec in specs[:-1]),
            f"                {specs[-1]}",
            "            ;;",
        ]
    return _filled(_ZSH, COMMANDS=described, FLAGS=cases)


def _fish(commands: _Commands) -> str:
    def values_of(values: str | tuple[str, ...]) -> str:
        if isinstance(values, str):
            return " -F" if values == _FILES else f" -f -a '(__pumice_names {values})'"
        return f" -f -a '{' '.join(values)}'" if values else " -f"

    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    lines = []
    for name, arguments in commands.items():
        first = "-n 'test (count (commandline -opc)) -eq 1'"
        lines.append(f"complete -c pumice {first} -a {name} -d {quoted(COMMANDS[name][1])}")
        for each in arguments:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in each.flags)
            takes = "" if each.values is None else f" -r{values_of(each.values)}"
            if flags:
                here = f"-n '__pumice_command {name}'"
                lines.append(f"complete -c pumice {here} {flags}{takes} -d {quoted(each.help)}")
        valued = " ".join(flag for each in arguments if each.values is not None for flag in each.flags)
        for number, each in enumerate(_operands(arguments), 1):
            if each.values:
                here = f"-n '__pumice_position {name} {number} {'more' if each.repeats else 'one'} {valued}'"
                lines.append(f"complete -c pumice {here}{values_of(each.values)}")
    return _FISH + "\n".join([*lines, ""])


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _filled(script: str, **lines: list[str]) -> str:
    for name, each in lines.items():
        script = script.replace(f"@{name}@", "\n".join(each))
    return script


SCRIPTS: Final[dict[str, Callable[[_Commands], str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
