"""docs/reference/commands.md: each command's arguments, as the command itself declares them.

The help texts that argparse prints differ from one Python version to the next, so the arguments are recorded while the
commands declare them, and laid out here.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from pumice.cli.main import COMMANDS, load_command
from scripts.docs_text import code, fenced, sentence, table

INTRODUCTION = """\
# Commands

Only `controller`, `webhook` and `install --check` contact a cluster; none contacts a registry.

- Results go to standard output, messages to standard error.
- Exit code 0: all is well; warnings alone are well. 1: the output could not be written. 2: bad input, or a command line
  that was not understood. 130: interrupted by Ctrl-C.
- Colour only on a terminal, and never if `NO_COLOR` is set.
- `FILE` is YAML or JSON and may hold several documents; `-` is standard input.

"""

MORE = {
    "validate": """\
A finding reads `FILE:LINE: PATH: VALUE: MESSAGE`, with `warning: ` before the path if it is a warning, and with the
hint on a line of its own. What keeps the text from being read as YAML has a column, too: `FILE:LINE:COLUMN: MESSAGE`.
The number of errors and warnings, and `FILE: JOB: good (N pods)`, go to standard error.

With `--json` every finding is a line of JSON, with the keys `severity` (`error` or `warning`), `file`, `line`,
`column`, `path`, `value`, `message` and `hint`.

ConfigMap, Secret and PersistentVolumeClaim documents may stand beside the Job; other kinds get a warning.
""",
    "render": """\
Prints exactly the objects that a controller with the same `--gang` creates. The order is: Services, ConfigMap, Secret,
NetworkPolicy, PersistentVolumeClaims, PodGroups, then the pods by task and index. The same input always gives the same
bytes. `-o json` prints one `v1` `List`. Private keys are never made here: what is made when the job runs reads
`<made at run time>`, what the file gives reads `<given in the file>`, which `--show-secrets` shows. Findings go to
standard error.
""",
    "explain": """\
Each line says what is in the pod, its value, who put it there (you with the line of your file, the job, a plugin, the
gang, or a default) and why. With `--json` every line is one JSON object with the keys `pod`, `kind`, `container`,
`name`, `value`, `by`, `why` and `line`.
""",
    "plugins": """\
With `--json` every plugin is a line of JSON, with the keys `name`, `summary`, `requires`, `builtin`, `example`
and `arguments`. A plugin of a third party that is installed but cannot be used is named on standard error.
""",
    "simulate": """\
Exit code 1: an expectation of the scenario was missed. [Rehearse a policy](../guides/rehearse-a-policy.md) shows what
can stand in a scenario. With `--json` every event is a line of JSON, with the keys `at` (seconds), `phase`,
`event`, `pod`, `policy`, `action` and `message`; an expectation has `expect`, `wanted` and `found`, too, and its event
is `ExpectationMet` or `ExpectationMissed`.
""",
    "run": """\
The job's pods run at once on this machine, each with its own address, host name and `/etc/hosts`; no root, Docker or
cluster is needed. Where no image is given for a name, the file system of this machine serves as the image, with the
working directory and the active Python environment visible in every pod. Whole runs:
[PyTorch](../guides/pytorch-on-a-laptop.md), [TensorFlow](../guides/tensorflow-on-a-laptop.md),
[MPI](../guides/mpi-on-a-laptop.md) and [Ray](../guides/ray-on-a-laptop.md) on a laptop.

A `pumice.toml` beside the job file says the same as the flags, which win: `[images]` and `[entrypoints]` have names of
images as keys; `paths` in `[mounts]` is a list. Words of an entry point that begin with `./` are files beside it. It
can also have `[programs]`: for the name of an image, a list of files that its containers find in `/usr/local/bin`; and
`[files]`: for the name of an image, a table of paths in its containers and the files that are put there.

The pods' output goes to standard output, each line with its pod; what happens to the job goes to standard error. With
`--json` every event is a line of JSON on standard output, with `time`, `type` (`plan`, `phase`, `pod`, `log`,
`warning` or `verdict`) and of `pod`, `container`, `stream`, `line`, `phase`, `code`, `signal`, `reason`, `attempt`
those that apply. `attempt` counts the runs of the job; where a container is started again, how often that has happened.

Of every run the Job, its events, and of each pod its spec and logs are kept in
`$XDG_STATE_HOME/pumice/runs/JOB-UID` (`~/.local/state/pumice/runs/JOB-UID`), for you alone to read: `job.json`,
`events.jsonl`, and for the N-th pod of a name `pods/TASK-INDEX/N/pod.json` and `pods/TASK-INDEX/N/CONTAINER.M.log`
after M restarts. The newest 20 runs stay, and those of `--keep` until you remove them; the directories of claims,
`$XDG_STATE_HOME/pumice/claims/NAME`, stay, too.

Exit code 0: the job completed. Else that of the container which the verdict names first (128 and the number of the
signal that ended it), or 1 if none failed. 2: bad input. 124: `--timeout`. 130: interrupted by Ctrl-C, which ends the
pods gracefully; a second one ends them at once. 143: SIGTERM. 129: the terminal was closed, and the run had not been
started with `nohup`. 141: whoever read the output has closed it.
""",
    "image": """\
`add` takes `NAME=PATH`, as often as you like. The path is a plain directory, which is used where it is, or what `docker
save`, `podman save`, `skopeo` or `buildah` wrote: a tar file (also one that is compressed) or an OCI directory, which
is unpacked into `$XDG_STATE_HOME/pumice/images` (`~/.local/state/pumice/images`). Names are those of Docker: `busybox`
is `docker.io/library/busybox:latest`. `rm` forgets a name, and with its last name the image, unless a job uses it now.

With `--json` every image is a line of JSON, with the keys `name`, `digest`, `size`, `root`, `source`, `config`
and `warnings`. Exit code 2: an archive that is damaged or would write outside the image, or a name that is not there.
""",
    "controller": """\
In the foreground until SIGTERM or Ctrl-C, inside a cluster or outside of it. It hands over its Lease when it ends.
[Operations](../guides/operations.md) tells of metrics, alerts and what happens when it is away, and
[Permissions](../guides/permissions.md) of what it must be allowed to do.

Exit code 0: told to end. 1: the cluster refuses. 2: bad input.
""",
    "webhook": """\
Inside a cluster, the webhook runs with `--service` and stores its certificates in a Secret. Outside of the cluster,
`--register` registers it by its own address with `failurePolicy: Ignore`, unregisters it at the end, and replaces the
registration of an earlier run that was killed. The webhook creates and renews its own certificates.

Exit code 0: ended by SIGTERM or Ctrl-C. 2: bad input, or the cluster could not be reached.
""",
    "install": """\
Prints the manifests to standard output, for `kubectl apply --server-side -f -`, without contacting a cluster; the same
flags give the same bytes. `--gang volcano` adds the definitions of Volcano's PodGroup and Queue. [Install Pumice on a
cluster](../guides/install.md) describes the manifests.

`--check` checks a cluster without changing it: its version, the definitions and the fields that they drop, gang
providers, Volcano's own controller, controller, webhook, roles and permissions. Exit code 0: everything is ok. 1:
something is missing or could not be checked; each such line has a hint. 2: bad input, or the cluster does not answer.
With `--json` every line is one JSON object with the keys `check`, `state` (`ok`, `missing` or `unknown`), `found` and
`todo`.
""",
    "schema": """\
JSON Schema draft 7, of one Job document. [Check Job files in CI](../guides/validate-in-ci.md) shows how to use it in an
editor.
""",
}


class Recorder(argparse.ArgumentParser):
    """A parser that remembers what it was told."""

    def __init__(self) -> None:
        super().__init__(add_help=False)
        self.declared: list[tuple[tuple[str, ...], dict[str, Any]]] = []

    def add_argument(self, *names: Any, **more: Any) -> argparse.Action:
        self.declared.append((names, more))
        return super().add_argument(*names, **more)


def page() -> str:
    return INTRODUCTION + "\n".join(map(section, COMMANDS))


def section(name: str) -> str:
    recorder = Recorder()
    load_command(name).add_arguments(recorder)
    usage = " ".join(["pumice", name, *(_usage(names, more) for names, more in recorder.declared)])
    parts = [f"## pumice {name}\n", f"{sentence(COMMANDS[name].summary)}\n", fenced("text", usage)]
    if recorder.declared:
        rows = [(_spellings(names, more), more["help"]) for names, more in recorder.declared]
        parts.append(table(("Argument", "Meaning"), rows))
    return "\n".join([*parts, MORE[name]])


def _usage(names: Sequence[str], more: dict[str, Any]) -> str:
    """One argument as it stands in a usage line."""
    if names[0].startswith("-"):
        return f"[{_with_value(names[0], more)}]"
    word = str(more["metavar"])
    return {"?": f"[{word}]", "+": f"{word}...", "*": f"[{word}...]"}.get(more.get("nargs", ""), word)


def _spellings(names: Sequence[str], more: dict[str, Any]) -> str:
    if names[0].startswith("-"):
        return ", ".join(code(_with_value(name, more)) for name in names)
    return code(more["metavar"])


def _with_value(name: str, more: dict[str, Any]) -> str:
    if more.get("action") == "store_true":
        return name
    choices = more.get("choices")
    value = "|".join(choices) if choices else more.get("metavar", name.lstrip("-").upper())
    return f"{name} {value}"
