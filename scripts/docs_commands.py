"""Builds docs/reference/commands.md from the arguments that each command declares.

The help texts of argparse differ between Python versions, so this module formats the declared arguments itself.
"""

# ruff: noqa: SLF001 - argparse has no other way to list arguments and their groups

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Final

from pumice.cli.help_examples import EXAMPLES
from pumice.cli.main import COMMANDS, load_command
from pumice.client.run_options.kinds import SWITCH
from pumice.client.run_options.table import ROWS, option_name
from scripts.docs_runs import RUNS
from scripts.docs_text import code, fenced, sentence, table

INTRODUCTION = """\
# Commands

Only `contexts`, `controller`, `webhook`, `install --check`, `install --upgrade` and commands with `--on CONTEXT`
contact a cluster; none contacts a registry.

- Results go to standard output, messages to standard error.
- Exit code 0: success; warnings do not change the exit code. 1: the output could not be written. 2: invalid input or
  command line. 130: interrupted by Ctrl-C.
- Output is coloured only on a terminal, and never if `NO_COLOR` is set.
- `FILE` is YAML or JSON and may contain several documents; `-` is standard input. `run` and `submit` take scripts, too.

"""

MORE = {
    "init": """\
Writes `NAME.yaml`, with comments, and never overwrites a file. The name of the Job is that of the script, made a valid
name. The file validates without warnings, runs with `pumice run NAME.yaml` in the directory of the script, or with
`--fit` where it asks for GPUs that this machine lacks, and is meant for a cluster, too. The script is read for its
imports and never run; it may not exist yet. Without a script, `init` asks on a terminal. A torch script that reads
`LOCAL_RANK` gets the value 0 where torchrun does not start it.

`--workers` is the number of ranks: for torch so many pods, rank 0 (`master`) among them; for MPI so many workers beside
the launcher; for TensorFlow so many workers and one `ps`, but none for a script that uses
`MultiWorkerMirroredStrategy`, which cannot have one; for Ray a head and one worker less, beside the driver. Arguments
after `--` are written into the file.
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
(`"/workspace" = "./src:ro"`); `fit = true` is `--fit`; `args = ["--lr", "0.1"]` are arguments of the program, which
those of the command line replace. Words of an entry point that begin with `./`
are paths relative to `pumice.toml`. Two more tables have image names as keys: `[programs]` lists files to put into
`/usr/local/bin` of the containers, and `[files]` maps paths in the containers to the files and
directories to put there.

A script (`.py`, `.sh` or an executable program) needs no Job file: `pumice run train.py --workers 4 -- --lr 0.1` runs
the Job that `pumice init` would write, with the same options, and writes none; `pumice get RUN -o yaml` prints it.
`--workers`, `--gpus`, `--framework` and `--name` are for scripts only.

Arguments after `--` go to the first container of each task that runs the same program as the first task, or as rank 0
of a PyTorch job, whatever their other arguments are; of an MPI job only to the launcher. They follow `args`, else
`command`; Kubernetes expands nothing of them. Programs that serve others, such as sshd, sleep or tensorboard, do not
count. If tasks run several programs, `--args-for TASK`, which may be repeated, says which get them. The script of `sh
-c` must use `"$@"`; the refusal of one that does not shows the changed line. A container without `command` and `args`
needs an image on this machine, or `--entrypoint`. The value of an argument whose name has TOKEN, SECRET, PASSWORD or
KEY (`--api-key X`, `--token=X`, `wandb.key=X`; not `--tokenizer` and `--max-tokens`) is shown as `***` and not stored:
the Job has a variable in its place, `$(ARG_API_KEY)`, whose value is kept and lost as that of `--env API_KEY`; `pumice
resume RUN --env ARG_API_KEY` supplies it.

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
    "contexts": """\
Lists `local`, which is this machine, and the contexts of the kubeconfig; `*` is where commands go without `--on`. Each
cluster is asked for at most 2 seconds: the controller is `Pumice`, `Volcano`, `none`, or `unknown` if you may not read
its Lease. Exit code 2: the kubeconfig cannot be read. With `-o json` every item has the keys `name`, `isDefault`,
`server`, `namespace`, `controller` and `problem`.
""",
    "nodes": """\
What is free is what the pods of all namespaces leave; it is `?` if you may not read them. With `-o json` every item has
the keys `name`, `ready`, `schedulable`, `total` and `free`, which is null if it is not known.
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


_OF_ARGPARSE: Final = 2  # groups that every parser has: positional arguments and options

TOML = """\
Two files set options for more than one run: `pumice.toml` next to the job file, and
`$XDG_CONFIG_HOME/pumice/config.toml` (`~/.config/pumice/config.toml`), which is yours alone: only there, or by flags,
you consent and set limits. Flags take precedence; what may be repeated adds up.
"""


def page() -> str:
    return INTRODUCTION + "\n".join(map(section, COMMANDS))


def section(name: str) -> str:
    parser = argparse.ArgumentParser(add_help=False)
    load_command(name).add_arguments(parser)
    usage = " ".join(["pumice", name, *map(_usage, parser._actions)])
    parts = [f"## pumice {name}\n", f"{sentence(COMMANDS[name][1])}\n", fenced("text", usage)]
    for title, actions in _groups(parser):
        rows = [(_spellings(action), str(action.help)) for action in actions]
        parts.append(table((title[:1].upper() + title[1:], "Meaning"), rows))
    parts.append(f"Examples:\n\n{fenced('sh', chr(10).join(EXAMPLES[name]))}")
    parts.append(MORE.get(name) or RUNS[name])
    if name == "run":
        parts += [TOML, table(("Flag", "`pumice.toml`", "`config.toml`"), [*_toml_keys()])]
    return "\n".join(parts)


def _toml_keys() -> Iterator[tuple[str, str, str]]:
    """The options that a TOML file may set, and by which key."""
    for name, row in ROWS.items():
        key = option_name(name)
        project = row.project if row.kind is SWITCH or not row.has_flag else f"[{row.project}]"
        if row.project or row.config:
            yield (
                code(f"--{key}" if row.has_flag else f"-- {row.metavar}"),
                code(project) if row.project else "",
                code(key) if row.config else "",
            )


def _groups(parser: argparse.ArgumentParser) -> Iterator[tuple[str, list[argparse.Action]]]:
    """Yield the arguments without a group, then each group, which is not empty, with its title."""
    groups = [(str(group.title), group._group_actions) for group in parser._action_groups[_OF_ARGPARSE:]]
    grouped = [action for _, actions in groups for action in actions]
    yield from (
        (title, actions)
        for title, actions in [("Argument", [each for each in parser._actions if each not in grouped]), *groups]
        if actions
    )


def _usage(action: argparse.Action) -> str:
    """Return one argument in the form of a usage line."""
    if action.option_strings:
        return f"[{_with_value(action.option_strings[0], action)}]"
    word = str(action.metavar)
    return {"?": f"[{word}]", "+": f"{word}...", "*": f"[{word}...]"}.get(str(action.nargs), word)


def _spellings(action: argparse.Action) -> str:
    if action.option_strings:
        return ", ".join(code(_with_value(name, action)) for name in action.option_strings)
    return code(str(action.metavar))


def _with_value(name: str, action: argparse.Action) -> str:
    if action.nargs == 0:
        return name
    value = "|".join(map(str, action.choices)) if action.choices else action.metavar or name.lstrip("-").upper()
    return f"{name} {value}"
