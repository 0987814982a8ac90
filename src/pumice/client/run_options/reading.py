"""Reads the options of a run, its project's `pumice.toml` and the user's own settings into RunOptions; options win."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from pumice.client.backends import default_settings, image_commands, may_share, state_directory
from pumice.client.job_files import Report
from pumice.client.run_options import kinds
from pumice.client.run_options.kinds import Source
from pumice.client.run_options.table import ROWS, check_scope, read_values
from pumice.client.run_options.toml_files import read_project_file, read_user_config
from pumice.model.findings import Finding
from pumice.model.problem import Position, Problem
from pumice.store.job_source import JobSource
from pumice.store.options import ClusterOptions, RunOptions
from pumice.store.run_errors import InvalidOption
from pumice.store.run_request import RunRequest
from pumice.store.settings import ExtraMount, Settings, config_directory, working_directory
from pumice.yaml.source import read_text


def read_options(
    given: Mapping[str, object],
    file: str,
    plugins: Sequence[str],
    environ: Mapping[str, str],
    *,
    on_cluster: bool = False,
) -> RunOptions:
    """`given` are options by their names in Python, as texts or as values. `file` is the Job file; `-` if none.

    Raises InvalidOption, also for options that do not apply to where the run is to be.
    """
    check_scope(given, on_cluster=on_cluster)
    try:
        return _on_cluster(given, file, environ) if on_cluster else _options(given, file, plugins, environ)
    except OSError as error:
        # A path that cannot be looked at: this user may not read a directory above it.
        raise InvalidOption((error.strerror or str(error)).lower(), where=Position(str(error.filename))) from error


def _options(given: Mapping[str, object], file: str, plugins: Sequence[str], environ: Mapping[str, str]) -> RunOptions:
    here = working_directory()
    project = (here / file).resolve().parent if file != "-" else None
    beside = project or here
    flags, config, toml = read_values(given, here, environ), read_user_config(environ), read_project_file(beside)
    own = _merged(config.values, flags)
    values = _merged(toml.values, own)
    if "args" in own:
        values["args"] = own["args"]
    defaults = default_settings(environ, plugins, project, values.get("python", ""))
    mounts = [*values["mount"]]
    if not (defaults.share_workdir and beside.is_relative_to(here)):
        paths = [beside] if may_share(beside, environ) else toml.files_beside(beside)
        mounts += [ExtraMount(path, read_only=True) for path in paths]
    env, passed_on = _variables(flags, config.values, environ)
    settings = replace(
        defaults,
        **{row.setting: values[name] for name, row in ROWS.items() if row.setting and name in values},
        programs=toml.programs,
        files=toml.files,
        env=env,
        passed_on=passed_on,
        retention=config.retention,
        mounts=tuple(mounts),
        workdir_read_only=defaults.workdir_read_only or values.get("workdir_read_only", False),
        project=beside,
        config=config_directory(environ),
        host_accesses=(*defaults.host_accesses, *toml.accesses(beside)),
        own_accesses=toml.accesses(beside, inside=True),
        allowed=(*own.get("allow_host_path", ()), *(each.path for each in own.get("mount", ()) if not each.read_only)),
    )
    return RunOptions(
        settings,
        **{row.option: values[name] for name, row in ROWS.items() if row.option and name in values},
        wait=not values.get("no_wait", False),
        priorities=config.priorities,
        documents=tuple(here / each for each in values.get("with_", ()) if each != "-"),
        after_reboot=config.after_reboot,
        required_images={name: tuple(flags.get(name, ())) for name in ("image", "entrypoint")},
    )


def _on_cluster(given: Mapping[str, object], file: str, environ: Mapping[str, str]) -> RunOptions:
    """Of `pumice.toml` only the arguments count, and of the user's own settings the variables."""
    here = working_directory()
    beside = (here / file).resolve().parent if file != "-" else here
    # The directory of the Job file, which is what `--code` alone means.
    code = beside if given.get("code") in (True, "") else given.get("code") or None
    flags = read_values({**given, "code": code}, here, environ, on_cluster=True)
    config, toml = read_user_config(environ), read_project_file(beside)
    env, passed_on = _variables(flags, config.values, environ)
    own = {row.cluster: flags[name] for name, row in ROWS.items() if row.cluster and name in flags}
    values = {"args": toml.values.get("args", ()), **flags}
    common = {row.option: values[name] for name, row in ROWS.items() if row.option and name in values}
    settings = Settings(workdir=here, state=state_directory(environ), project=beside, env=env, passed_on=passed_on)
    documents = tuple(here / each for each in values.get("with_", ()) if each != "-")
    return RunOptions(settings, **common, documents=documents, cluster=ClusterOptions(**own))


def _variables(
    flags: Mapping[str, Any], config: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the variables for containers, and the names of those that are the caller's own."""
    variables: dict[str, str | None] = {}
    for file in flags.get("env_file", ()):
        # A variable per line, as `env` takes it; empty lines and lines that begin with # are left out.
        text = read_text(file)
        if isinstance(text, Problem):
            raise InvalidOption.of([text])
        lines = [line for line in map(str.strip, text.splitlines()) if line and line[0] != "#"]
        source = Source(Position(option="env-file"), environ=environ)
        variables |= kinds.named(file, partial(kinds.VARIABLES.read, lines, source))
    variables |= flags.get("env", {})
    passed_on = tuple(name for name, value in variables.items() if value is None)
    given = {name: value for name, value in variables.items() if value is not None}
    return {**config.get("env", {}), **given, **{name: environ[name] for name in passed_on}}, passed_on


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Lists and mappings are joined; of other values the second wins."""
    values = {**first, **second}
    for name in first.keys() & second.keys():
        if isinstance(first[name], tuple):
            values[name] = (*first[name], *second[name])
        elif isinstance(first[name], dict):
            values[name] = {**first[name], **second[name]}
    return values


def with_arguments(request: RunRequest) -> RunRequest:
    """Return the request with its arguments in its Job, and secret values in its variables. Raises InvalidOption."""
    options, job = request.options, request.job
    if not options.args:
        if options.args_for:
            hint = "write them after --, at the end of the command"
            raise InvalidOption("there are no arguments", hint, Position(option="args-for"))
        return request
    from pumice.admission.program_arguments import (  # noqa: PLC0415 - few runs have arguments
        add_program_arguments,
        read_arguments,
        with_first_containers,
    )

    found = read_arguments(options.args)
    changed = add_program_arguments(job.job, found.words, options.args_for, image_commands(options.settings))
    if changed.findings:
        raise InvalidOption.of([_report(each, request.source).problem for each in changed.findings])
    env, hidden = {**options.settings.env, **found.secrets}, (*options.settings.passed_on, *found.secrets)
    # On this machine, the record of the run hides them by their names.
    settings = replace(options.settings, env=env, **({"passed_on": hidden} if options.cluster is not None else {}))
    return replace(
        request,
        job=replace(job, job=changed.job, written=with_first_containers(job.written, changed.containers)),
        options=replace(options, args=found.shown, settings=settings),
    )


def _report(finding: Finding, source: JobSource) -> Report:
    """Return a finding with its line; one about a script with the line in the script."""
    line = source(finding.path).line
    if isinstance(finding.value, str) and source.text:
        lines = source.text.splitlines()
        same = (number for number in range(line - source.first, len(lines)) if finding.value in lines[number])
        line = source.first + next(same, line - source.first)
    return Report.at(finding, source.file, line)
