"""Puts the arguments of a program into a Job: `pumice run job.yaml -- --lr 0.1`.

They go to the first container of each task that runs the same program as the first task, or as rank 0 of a PyTorch
job; of an MPI job to the launcher only. Values of arguments with secret names become variables, which the containers
need: the Job has `$(ARG_API_KEY)`, as Kubernetes expands it, and not the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from pumice.admission.program import Program, main_command, program, shell_script, start
from pumice.admission.shell_script import USE, changed_line, count_arguments
from pumice.model.findings import SPEC, Finding, Path
from pumice.model.job import Job, Manifest, TaskSpec
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import SECRET_NAME
from pumice.model.text import HIDDEN, literal
from pumice.plugins.mpi import Mpi
from pumice.plugins.pytorch import PyTorch
from pumice.plugins.ray import Ray

_LONGEST_NAME: Final = 60
_ASSIGNED: Final = re.compile(r"(-*[A-Za-z_+~][\w./+~-]*)=(.*)", re.DOTALL)
_OPTION: Final = re.compile(r"--?[A-Za-z][\w.-]*")
# Names that only look like those of secrets.
_HARMLESS: Final = re.compile(r"tokeni[sz]|tokens(?![a-z])|key_?(?:word|point|frame|board)|monkey", re.IGNORECASE)


class ImageCommand(Struct, frozen=True):
    """What an image runs by itself."""

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()


class Arguments(Struct, frozen=True):
    """Arguments as the Job has them, as they are shown, and the values that are in neither, by variable."""

    words: tuple[str, ...]
    shown: tuple[str, ...]
    secrets: Mapping[str, str]


class JobWithArguments(Struct, frozen=True):
    """A Job with arguments; as it was, if there are findings. `containers` are those that got them, by task."""

    job: Job
    containers: Mapping[int, Manifest] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


class _Candidate(Struct, frozen=True):
    index: int
    task: TaskSpec
    container: Manifest
    words: tuple[str, ...] | None  # the command line; None if only the image knows it
    program: Program = field(default_factory=lambda: Program(""))

    @property
    def path(self) -> Path:
        return SPEC / "tasks" / self.index / "template" / "spec" / "containers" / 0


def read_arguments(args: Sequence[str]) -> Arguments:
    """Take the values of arguments with secret names out: of `--api-key X`, `--token=X` and `wandb.key=X`."""
    words, shown, secrets = list[str](), list[str](), dict[str, str]()
    option = ""  # the name of the option whose value follows
    for word in args:
        assigned = _ASSIGNED.fullmatch(word)
        name, value = (option, word) if option else (assigned[1], assigned[2]) if assigned is not None else ("", "")
        before = "" if option else f"{name}="
        if _is_secret(name) and not (option and word.startswith("--")):
            variable = _variable(name, secrets)
            secrets[variable] = value
            words.append(f"{literal(before)}$({variable})")
            shown.append(f"{before}{HIDDEN}")
            option = ""
        else:
            words.append(literal(word))
            shown.append(word)
            option = word if _OPTION.fullmatch(word) and _is_secret(word) else ""
    return Arguments(tuple(words), tuple(shown), secrets)


def leave_out_secrets(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments without those that have secret values; and these, as they are shown."""
    kept, left_out = list[str](), list[str]()
    for word, shown in zip(args, read_arguments(args).shown, strict=True):
        if word == shown:
            kept.append(word)
        elif shown == HIDDEN:
            left_out += [kept.pop(), shown]
        else:
            left_out.append(shown)
    return kept, left_out


def add_program_arguments(
    job: Job,
    words: Sequence[str],
    tasks: Sequence[str] = (),
    image_command: Callable[[str], ImageCommand | None] = lambda _image: None,
) -> JobWithArguments:
    """Put words into the commands of tasks; by default of those that run the program of the job.

    `image_command` returns what an image runs by itself, and None if that is not known.
    """
    known = job.task_names
    unknown = [name for name in tasks if name not in known]
    if unknown:
        hint = f"{did_you_mean(unknown[0], known)} --args-for names one of {', '.join(known)}".lstrip()
        return JobWithArguments(
            job, findings=tuple(Finding(SPEC / "tasks", f"no task is named {name}", hint=hint) for name in unknown)
        )
    candidates = [
        _candidate(index, task, image_command)
        for index, task in enumerate(job.spec.tasks)
        if task.pod_spec.get("containers")
    ]
    chosen, findings = _chosen(job, candidates, tasks)
    containers = {}
    for each in chosen:
        container = _with_words(each, words, image_command)
        if isinstance(container, Finding):
            findings.append(container)
        else:
            containers[each.index] = container
    if findings:
        return JobWithArguments(job, findings=tuple(findings))
    return JobWithArguments(with_first_containers(job, containers), containers)


def with_first_containers(job: Job, containers: Mapping[int, Manifest]) -> Job:
    """Replace the first containers of tasks; also of the same Job before its defaults."""
    tasks = [*job.spec.tasks]
    for index, container in containers.items():
        pod_spec = tasks[index].pod_spec
        changed = {**pod_spec, "containers": [container, *pod_spec["containers"][1:]]}
        tasks[index] = msgspec.structs.replace(tasks[index], template={**tasks[index].template, "spec": changed})
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=tasks))


def _is_secret(name: str) -> bool:
    return SECRET_NAME.search(_HARMLESS.sub("", name)) is not None


def _variable(name: str, taken: Mapping[str, str]) -> str:
    """Return the name of the variable for the value of an argument: `ARG_API_KEY` for `--api-key`."""
    plain = "ARG_" + re.sub("[^A-Z0-9]+", "_", name.upper()).strip("_")
    numbers = (f"{plain}_{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (plain, *numbers) if each not in taken)


def _candidate(index: int, task: TaskSpec, image_command: Callable[[str], ImageCommand | None]) -> _Candidate:
    container = task.pod_spec["containers"][0]
    command, args = tuple(container.get("command") or ()), tuple(container.get("args") or ())
    image = str(container.get("image") or "")
    words: tuple[str, ...] | None = (*command, *args)
    if not command:
        of_image = image_command(image)
        if of_image is not None:
            words = (*of_image.entrypoint, *(args or of_image.cmd))
        elif not args:
            return _Candidate(index, task, container, None, Program(f"image {image}"))
    directory = str(container.get("workingDir") or "")
    found = program(words or (), directory)
    if not command and image_command(image) is None:
        # The image has an entrypoint, or the first argument is the program.
        found = Program(f"image {image} {found.name}", found.is_utility)
    return _Candidate(index, task, container, words, found)


def _chosen(job: Job, candidates: Sequence[_Candidate], tasks: Sequence[str]) -> tuple[list[_Candidate], list[Finding]]:
    """Return the tasks that get the arguments; or what is not clear about them."""
    if tasks:
        return [each for each in candidates if each.task.name in tasks], []
    launcher = _task_of(job, "mpi", Mpi, "master")
    if launcher:
        return [each for each in candidates if each.task.name == launcher], []
    started_by_ray = {_task_of(job, "ray", Ray, role) for role in ("head", "worker")}
    able = [each for each in candidates if each.words is not None or each.task.name not in started_by_ray]
    master = _task_of(job, "pytorch", PyTorch, "master")
    own = [each for each in able if not each.program.is_utility] or able[:1]
    first = next((each for each in able if each.task.name == master), None) or next(iter(own), None)
    if first is None:
        return [], [Finding(SPEC / "tasks", "no task runs a program that arguments could be for")]
    others = [each for each in own if not each.program.is_same(first.program)]
    if others and first.task.name != master:
        named = "; ".join(dict.fromkeys(f"{each.task.name} runs {_named(each)}" for each in (first, *others)))
        hint = " or ".join(f"--args-for {each.task.name}" for each in (first, *others))
        return [], [Finding(SPEC / "tasks", f"the tasks run several programs: {named}", hint=hint)]
    return [each for each in able if each.program.is_same(first.program)], []


def _named(candidate: _Candidate) -> str:
    name = candidate.program.name.partition("\n")[0]
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}..."


def _task_of(job: Job, plugin: str, kind: Any, role: str) -> str:
    """Return the task that has a role for a plugin of the job; empty if there is none."""
    if plugin not in job.spec.plugins:
        return ""
    parsed, _ = kind.parse(job.spec.plugins[plugin] or ())
    name = getattr(parsed, role, "")
    return name if job.task(name) is not None else ""


def _with_words(
    candidate: _Candidate, words: Sequence[str], image_command: Callable[[str], ImageCommand | None]
) -> Manifest | Finding:
    container = candidate.container
    if candidate.words is None:
        image = container.get("image") or "none"
        message = f"has neither command nor args, and what its image {image} runs is not known here"
        hint = f"write a command, `pumice image pull {image}`, or run with --entrypoint {image}=COMMAND"
        return Finding(candidate.path, message, hint=hint)
    if not words:
        return container
    index = shell_script(candidate.words)
    more = tuple(words)
    if index is not None:
        script = candidate.words[index]
        given, most = len(candidate.words[index + 2 :]) + len(words), count_arguments(script)
        if most == 0:
            return _unused(candidate, index, script)
        if most is not None and most < given:
            message = f"the script reads ${most} at most, so its program would not get all {given} arguments"
            return Finding(_script_path(candidate, index), message, hint=f"use {USE} in place of $1")
        if index == len(candidate.words) - 1:
            shell = candidate.words[start(candidate.words)]
            more = (shell.rpartition("/")[2], *more)
    if container.get("args"):
        return {**container, "args": [*container["args"], *more]}
    if container.get("command"):
        return {**container, "command": [*container["command"], *more]}
    of_image = image_command(str(container.get("image") or ""))
    cmd = () if of_image is None else of_image.cmd
    return {**container, "args": [*map(literal, cmd), *more]}


def _unused(candidate: _Candidate, index: int, script: str) -> Finding:
    """Refuse a script that ignores its arguments, with the line that would use them."""
    command, path = main_command(script), _script_path(candidate, index)
    message = 'the script does not use "$@", so its program would not get the arguments'
    if command is None:
        return Finding(path, message, hint='add a command that uses "$@"')
    line, changed = changed_line(script, command)
    return Finding(path, message, line, hint=f"write: {changed}")


def _script_path(candidate: _Candidate, index: int) -> Path:
    """Return the path of a word of the command line in the Job; of the container, if the image has it."""
    commands = len(candidate.container.get("command") or ())
    if index < commands:
        return candidate.path / "command" / index
    return candidate.path / "args" / (index - commands) if candidate.container.get("args") else candidate.path
