"""Builds docs/reference/commands.md from the arguments that each command declares.

The help texts of argparse differ between Python versions, so this module records the declared arguments and formats
them itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from pumice.cli.help_examples import EXAMPLES
from pumice.cli.main import COMMANDS, load_command
from scripts.docs_runs import RUNS
from scripts.docs_text import code, fenced, sentence, table

INTRODUCTION = """\
# Commands

Only `controller`, `webhook`, `install --check` and `install --upgrade` contact a cluster; none contacts a registry.

- Results go to standard output, messages to standard error.
- Exit code 0: success; warnings do not change the exit code. 1: the output could not be written. 2: invalid input or
  command line. 130: interrupted by Ctrl-C.
- Output is coloured only on a terminal, and never if `NO_COLOR` is set.
- `FILE` is YAML or JSON and may contain several documents; `-` is standard input.

"""

MORE = {
    "init": """\
Writes `NAME.yaml`, with comments, and never overwrites a file. The name of the Job is that of the script, made a valid
name. The file validates without warnings, runs with `pumice run NAME.yaml` in the directory of the script, or with
`--fit` where it asks for GPUs that this machine lacks, and is meant for a cluster, too. The script is read for its
imports and never run; it may not exist yet. Without a script, `init` asks on a terminal.
""",
    "validate": """\
The format of a finding is `FILE:LINE: PATH: VALUE: MESSAGE`, with `warning: ` before the path of a warning, and with
the hint on the next line. A YAML syntax error also has a column: `FILE:LINE:COLUMN: MESSAGE`. The number of errors and
warnings, and `FILE: JOB: good (N pods)`, go to standard error.

With `--json` every finding is one JSON object per line, with the keys `severity` (`error` or `warning`), `file`,
`line`, `column`, `path`, `value`, `message` and `hint`.

A file may also contain ConfigMap, Secret and PersistentVolumeClaim documents; other kinds get a warning.
If none of the files contains a Job, the exit code is 2.
""",
    "render": """\
Prints exactly the objects that a controller with the same `--gang` creates. The order is: Services, ConfigMap, Secret,
NetworkPolicy, PersistentVolumeClaims, PodGroups, then the pods by task and index. The same input always gives the same
bytes. `-o json` prints one `v1` `List`. `render` generates no private keys: it prints `<made at run time>` for keys
that are generated when the job runs, and `<given in the file>` for keys in the file, unless `--show-secrets` is set.
Findings go to standard error.
""",
    "explain": """\
Each line shows a setting of the pod, its value, its origin (you, with the line of your file, the job, a plugin, the
gang, or a default) and the reason. With `--json` every line is one JSON object with the keys `pod`, `kind`,
`container`, `name`, `value`, `by`, `why` and `line`.
""",
    "plugins": """\
With `--json` every plugin is one JSON object per line, with the keys `name`, `summary`, `requires`, `builtin`,
`example` and `arguments`. An installed third-party plugin that cannot be loaded is reported on standard error.
""",
    "simulate": """\
Without a scenario every pod runs for 10 seconds and succeeds, apart from what `--fail` and `--evict` do; if they come
later, the pods run that much longer.

Exit code 1: an expectation of the scenario was missed. [Rehearse a policy](../guides/rehearse-a-policy.md) describes
the fields of a scenario. With `--json` every event is one JSON object per line, with the keys `at` (seconds), `phase`,
`event`, `pod`, `policy`, `action` and `message`; an expectation also has `expect`, `wanted` and `found`, and its event
is `ExpectationMet` or `ExpectationMissed`.
""",
    "run": """\
The pods of the job run on this machine, each with its own address, host name and `/etc/hosts`; this needs no root,
Docker or cluster. If no image is mapped to a name, the file system of this machine serves as the image, with the
working directory and the active Python environment visible in every pod. Examples:
[PyTorch](../guides/pytorch-on-a-laptop.md), [TensorFlow](../guides/tensorflow-on-a-laptop.md),
[MPI](../guides/mpi-on-a-laptop.md) and [Ray](../guides/ray-on-a-laptop.md) on a laptop.

A `pumice.toml` next to the job file sets the same options as the flags; flags take precedence. `[images]` and
`[entrypoints]` have image names as keys; `[mounts]` has a list `paths`, or paths in pods as keys
(`"/workspace" = "./src:ro"`); `fit = true` is `--fit`. Words of an entry point that begin with `./`
are paths relative to `pumice.toml`. Two more tables have image names as keys: `[programs]` lists files to put into
`/usr/local/bin` of the containers, and `[files]` maps paths in the containers to the files and
directories to put there.

The output of the pods goes to standard output, each line with its pod; the progress of the job goes to standard error.
A pod that fails, is killed or restarts a container gets a line there at once, with what follows from it.
`--kill` counts from the moment at which the job is first Running.
With `--json` every event is one JSON object per line on standard output, with `time`, `type` (`plan`, `phase`, `pod`,
`log`, `warning` or `verdict`) and those of `pod`, `container`, `stream`, `line`, `phase`, `code`, `signal`, `reason`,
`attempt` that apply. `attempt` counts the attempts of the job; for a restarted container, its restarts.

Every run has a name, `NAME:N`: the Job's name and a number. Pumice stores the N-th run of a Job in
`$XDG_STATE_HOME/pumice/runs/NAMESPACE/NAME/N` (`~/.local/state/pumice/...`), readable only by you: `run.json` (the Job
and the options), `journal.jsonl` (what happened), `status.json` (how it stands), and for the N-th pod of a name
`pods/TASK-INDEX/N/pod.json` and `pods/TASK-INDEX/N/CONTAINER.M.log` after M restarts, plain text beside its index
`CONTAINER.M.idx`. Where the disk was full, a line of the log says how much is missing. Values of Secrets and of
variables that are passed on are not stored. Finished runs are removed after 30 days, above 50 of one name and above
20 GiB in all, completed ones first, which the next run reports; `[runs]` in `config.toml` sets `keep_days`,
`keep_per_name` and `max_size`. Runs with `--keep` and the directories of claims,
`$XDG_STATE_HOME/pumice/claims/NAMESPACE/NAME`, stay until you remove them.

Exit code 0: the job completed. Otherwise the exit code of the container that the verdict names first (128 plus the
number of the signal that ended it), or 1 if no container failed. 2: bad input. 124: `--timeout`. 130: interrupted by
Ctrl-C, which ends the pods gracefully; a second Ctrl-C ends them at once. 143: SIGTERM. 129: the terminal was closed,
and the run was not started with `nohup`. 141: the reader of the output closed it.

Ctrl-\\ detaches the run: it goes on without the terminal, and `pumice run` prints its name and exits with code 0.
""",
    "image": """\
`add` accepts one or more `NAME=PATH`. The path is a plain directory, which Pumice uses in place, or the output of
`docker save`, `podman save`, `skopeo` or `buildah`: a tar file, also a compressed one, or an OCI directory, which
Pumice unpacks into `$XDG_STATE_HOME/pumice/images` (`~/.local/state/pumice/images`). Names are those of Docker:
`busybox` is `docker.io/library/busybox:latest`. `add NAME -` reads the archive from standard input. `rm` removes a
name, and the image with its last name, unless a running job uses it.

`pull` fetches images from their registries by the OCI distribution protocol, for this machine's platform or that of
`--platform`. It logs in if the registry asks for it, with what `docker login` or `podman login` has stored:
`$REGISTRY_AUTH_FILE` alone if it is set, else `$XDG_RUNTIME_DIR/containers/auth.json`,
`~/.config/containers/auth.json`, then `$DOCKER_CONFIG/config.json` or `~/.docker/config.json`, with their credential
helpers. Registries are reached by https, through the proxy of `HTTPS_PROXY` and `NO_PROXY`, with the certificates that
this machine trusts; those on a loopback address also by http. A download that was interrupted continues. Every byte is
checked against its digest. [Your own images](../guides/own-images.md) shows all of it.

With `--json` every image is one JSON object per line, with the keys `name`, `digest`, `size`, `root`, `source`,
`config` and `warnings`. Exit code 2: the archive is damaged or would write outside the image, the name is not valid, or
the image does not exist or is private. Exit code 1: a registry cannot be reached or does not answer as it should.
""",
    "controller": """\
Runs in the foreground until SIGTERM or Ctrl-C, inside or outside of a cluster. It releases its Lease when it ends.
[Operations](../guides/operations.md) describes metrics, alerts and the effect of an outage,
[Permissions](../guides/permissions.md) the permissions that it needs.

Exit code 0: ended by SIGTERM or Ctrl-C. 1: the cluster refuses. 2: bad input.
""",
    "webhook": """\
Inside a cluster, the webhook runs with `--service` and stores its certificates in a Secret. Outside of the cluster,
`--register` registers it by its own address with `failurePolicy: Ignore`, unregisters it at the end, and replaces the
registration of an earlier run that was killed. The webhook creates and renews its own certificates.

Exit code 0: ended by SIGTERM or Ctrl-C. 2: bad input, or the cluster could not be reached.
""",
    "install": """\
Prints the manifests to standard output, for `kubectl apply --server-side -f -`, without contacting a cluster; the same
flags give the same bytes. Without `--image` it warns on standard error, since a cluster cannot pull the default.
`--gang volcano` adds the CRDs of Volcano's PodGroup and Queue. [Install Pumice on a cluster](../guides/install.md)
describes the manifests.

`--upgrade` reads namespace, gang provider, images, replicas, resources and further flags off the Deployments of a
cluster and prints the manifests of this version with them; `--image` and `--gang` replace what is installed. It changes
nothing, and reports on standard error what it keeps. With several installations, `--namespace` chooses one.

`--check` checks a cluster without changing it: its version, the CRDs and the fields that they drop, gang
providers, Volcano's own controller, controller, webhook, their Deployments and pods, roles and permissions. It reads
namespace, gang provider and whether there is a webhook off the Deployments, unless flags say otherwise. Exit code 0:
nothing is missing. 1: something is missing, not rolled out or could not be checked; each such line has a hint. 2: bad
input, or the cluster does not answer. With `--json` every line is one JSON object with the keys `check`, `state` (`ok`,
`missing` or `unknown`), `found` and `todo`.
""",
    "completion": """\
The script completes commands, flags, their values, files, and the names of plugins, images, runs and pods. It follows
from the flags of this version, so print it again after an upgrade, or source it where your shell starts.
""",
    "schema": """\
The schema is JSON Schema draft 7, for one Job document. [Check Job files in CI](../guides/validate-in-ci.md) shows how
to use it in an editor.
""",
}


class Recorder(argparse.ArgumentParser):
    """A parser that records the declared arguments."""

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
    parts.append(f"Examples:\n\n{fenced('sh', chr(10).join(EXAMPLES[name]))}")
    return "\n".join([*parts, MORE.get(name) or RUNS[name]])


def _usage(names: Sequence[str], more: dict[str, Any]) -> str:
    """Return one argument in the form of a usage line."""
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
