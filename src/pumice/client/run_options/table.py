"""The options of a run: a row each. Flags, keyword arguments, TOML keys, completion and the reference follow from it.

A row has the name in Python, the type that a checker sees, the kind that reads values, the metavar, the help and the
group of its flag, and which TOML files may set it. The flag has the same name, with dashes: `max_wait` is `--max-wait`,
`with_` is `--with`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from msgspec.structs import replace

from pumice.client.run_options import kinds
from pumice.client.run_options.cluster_table import ClusterRows
from pumice.client.run_options.kinds import Pathlike, Source
from pumice.client.run_options.row import Group, Row, Scope
from pumice.model.problem import Command, Option, Position
from pumice.model.suggestions import did_you_mean
from pumice.store.options import Isolation, Network, RunOptions
from pumice.store.run_errors import InvalidOption

_CODE: Final = Option("code", True)


class Options(ClusterRows, total=False):
    """All may be left out. A time is a number of seconds, or a text such as `10m`."""

    with_: Annotated[
        Pathlike | Sequence[Pathlike],
        Row(kinds.TEXTS, "ConfigMaps, Secrets and claims that the job uses", "FILE", group=Group.PROGRAM),
    ]
    image: Annotated[
        Mapping[str, Pathlike],
        Row(
            kinds.IMAGES,
            "use a directory or archive as this image; on a cluster, this image instead: NAME=REF",
            "NAME=PATH",
            project="images",
            setting="images",
            cluster="images",
            cluster_kind=kinds.REFERENCES,
            group=Group.IMAGES,
        ),
    ]
    entrypoint: Annotated[
        Mapping[str, str],
        Row(
            kinds.COMMANDS,
            "the command of containers that have none, where the host serves as image",
            'IMAGE="CMD"',
            project="entrypoints",
            setting="entrypoints",
            instead="write a command into the Job file",
            group=Group.IMAGES,
        ),
    ]
    env: Annotated[
        Mapping[str, str] | Sequence[str],
        Row(
            kinds.VARIABLES,
            "set a variable in all containers, whatever the job sets; K alone passes on your own",
            "K=V",
            config=True,
            group=Group.PROGRAM,
        ),
    ]
    env_file: Annotated[
        Pathlike | Sequence[Pathlike],
        Row(kinds.TEXTS, "variables for all containers, one K=V per line", "FILE", group=Group.PROGRAM),
    ]
    mount: Annotated[
        str | Sequence[str],
        Row(
            kinds.MOUNTS,
            "mount this host path into every pod, at the same path; SRC:DST[:ro] at another",
            "PATH[:ro]",
            project="mounts",
            config=True,
            instead=(_CODE, " ships your code; data comes from a claim or a volume of the Job"),
            group=Group.PLACE,
        ),
    ]
    allow_host_path: Annotated[
        Pathlike | Sequence[Pathlike],
        Row(
            kinds.HOST_PREFIXES,
            "allow the job to use paths of this machine that need consent",
            "PREFIX",
            config=True,
            instead=("pods of a cluster see no file of this machine; ", _CODE, " ships your code"),
            group=Group.PLACE,
        ),
    ]
    ignore: Annotated[
        str | Sequence[str],
        Row(
            kinds.TEXTS,
            "run without a resource that the job asks for, such as nvidia.com/gpu",
            "RESOURCE",
            instead="leave the resource out of resources in the Job file",
            group=Group.RESOURCES,
        ),
    ]
    scale: Annotated[
        Mapping[str, int], Row(kinds.REPLICAS, "override a task's number of pods", "TASK=N", group=Group.PROGRAM)
    ]
    publish: Annotated[
        str | Sequence[str],
        Row(
            kinds.PUBLISHED,
            "publish a pod's port on 127.0.0.1, there as LOCAL; of a job of one pod, PORT[:LOCAL] will do",
            "TASK-INDEX:PORT[:LOCAL]",
            instead="`forward`, once it runs: pumice forward RUN/POD PORT",
            group=Group.NETWORK,
        ),
    ]
    kill: Annotated[
        str | Sequence[str],
        Row(
            kinds.KILLS,
            "kill a pod this long after the job starts, to test policies",
            "TASK-INDEX@30s",
            option="kills",
            instead=(Command("exec", "RUN", "POD", ("kill", "1")), ", once it runs"),
            group=Group.FAILURES,
        ),
    ]
    workdir_read_only: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "pods cannot write to the working directory",
            config=True,
            instead=("pods see no directory of this machine; ", _CODE, " ships your code"),
            group=Group.PLACE,
        ),
    ]
    snapshot: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "pods see the code of the working directory as it is now, in a copy of their own",
            setting="snapshot",
            instead=(_CODE, " ships the code as it is now"),
            group=Group.PLACE,
        ),
    ]
    pull: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "fetch images that are not here from their registries",
            instead="nodes pull images themselves; imagePullPolicy in the Job file says when",
            group=Group.IMAGES,
        ),
    ]
    priority: Annotated[
        int,
        Row(
            kinds.WHOLE_NUMBER,
            "in the queue of this machine, the highest first; default by priorityClassName and config.toml, else 0",
            "N",
            instead=(Option("priority-class", "NAME"),),
            group=Group.RESOURCES,
        ),
    ]
    hold: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "with -d: do not start it before `pumice resume`",
            background=True,
            instead="write suspend: true into the Job file",
            group=Group.RESOURCES,
        ),
    ]
    no_wait: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "refuse the job if its resources are not free now",
            instead="pumice validate --on CONTEXT says whether it fits",
            group=Group.RESOURCES,
        ),
    ]
    max_wait: Annotated[
        float | str,
        Row(
            kinds.TIME,
            "give up after waiting this long for resources (exit code 2)",
            "5m",
            instead=(Option("timeout", "10m"), ", and ", Command("why", "RUN"), " says what it waits for"),
            group=Group.RESOURCES,
        ),
    ]
    note: Annotated[str, Row(kinds.TEXT, "a remark that is recorded with the run", "TEXT", group=Group.PROGRAM)]
    args: Annotated[
        Sequence[str | int | float],
        Row(kinds.WORDS, "arguments of the program", "ARGS", project="args", has_flag=False, group=Group.PROGRAM),
    ]
    args_for: Annotated[
        str | Sequence[str],
        Row(
            kinds.TEXTS,
            "the task whose program gets the arguments; by default all that run the same one",
            "TASK",
            group=Group.PROGRAM,
        ),
    ]
    python: Annotated[
        Pathlike,
        Row(
            kinds.TEXT,
            "the Python of pods without an image: an interpreter or a venv",
            "PATH",
            instead="the image of a container has its Python",
            group=Group.IMAGES,
        ),
    ]
    fit: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "leave out devices that this machine lacks, and lower requests until it fits",
            project="fit",
            instead=(Option("scale", {"TASK": 1}), ", or smaller resources in the Job file"),
            group=Group.RESOURCES,
        ),
    ]
    network: Annotated[
        Literal["job", "outbound", "all"],
        Row(
            kinds.choice(Network, Network),
            "job: pods reach only each other; outbound (default): also what this machine reaches, but not itself, "
            "link-local and metadata addresses; all: these, too",
            config=True,
            instead="a NetworkPolicy, or the argument --networkpolicy of the svc plugin",
            group=Group.NETWORK,
        ),
    ]
    isolation: Annotated[
        Literal["auto", "namespaces", "process"],
        Row(
            kinds.choice(Isolation, Isolation),
            "namespaces: isolated pods; process: plain processes, for machines that do not allow namespaces",
            config=True,
            instead="securityContext in the Job file",
            group=Group.PLACE,
        ),
    ]
    unconfined: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "run containers without the system call filter and no_new_privs; they protect this machine, so use it "
            "for jobs you trust",
            config=True,
            setting="unconfined",
            instead="securityContext.seccompProfile in the Job file",
            group=Group.PLACE,
        ),
    ]
    allow_nested_namespaces: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "containers may make user namespaces, as containers in containers need",
            config=True,
            setting="nested_namespaces",
            instead="securityContext in the Job file",
            group=Group.PLACE,
        ),
    ]
    pids_limit: Annotated[
        int,
        Row(
            kinds.COUNT,
            "processes that a pod may have (default 4096)",
            "N",
            config=True,
            setting="pids",
            instead="nodes limit processes (podPidsLimit of kubelet)",
            group=Group.RESOURCES,
        ),
    ]
    log_limit: Annotated[
        str | int,
        Row(
            kinds.SIZE,
            "how much of the log of a container is kept",
            "2Gi",
            config=True,
            setting="log_size",
            instead="nodes limit logs (containerLogMaxSize of kubelet)",
            group=Group.RESOURCES,
        ),
    ]
    disk_limit: Annotated[
        str | int,
        Row(
            kinds.SIZE,
            "stop the job when its claims, volumes and layers take more of the disk",
            "10Gi",
            config=True,
            setting="disk",
            instead="ephemeral-storage in resources.limits in the Job file",
            group=Group.RESOURCES,
        ),
    ]
    timeout: Annotated[
        float | str,
        Row(
            kinds.POSITIVE_TIME, "stop the job after this time (exit code 124)", "10m", once=True, group=Group.RESOURCES
        ),
    ]
    keep: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "keep the files that pods wrote, and print where",
            setting="keep",
            once=True,
            instead="while the pod runs: pumice cp RUN/POD:PATH DIR",
            group=Group.PLACE,
        ),
    ]


def _rows() -> Iterator[tuple[str, Row]]:
    """Yield the rows, with what follows from their names."""
    for name, annotation in Options.__annotations__.items():
        row: Row = annotation.__metadata__[0]
        yield name, replace(row, option=name) if name in RunOptions.__struct_fields__ else row
    for name, annotation in ClusterRows.__annotations__.items():
        row = annotation.__metadata__[0]
        yield name, replace(row, cluster=row.cluster or name, group=Group.CLUSTER)


ROWS: Final[Mapping[str, Row]] = dict(_rows())


def check_foreground(given: Mapping[str, object], hint: str) -> None:
    """Raises InvalidOption for options of a run that ends with its client which are only for others."""
    for name, row in ROWS.items():
        if row.background and given.get(name):
            raise InvalidOption("only for runs in the background", hint, Position(option=option_name(name)))


def check_scope(given: Mapping[str, object], *, on_cluster: bool) -> None:
    """Raises InvalidOption for options that do not apply to where the run is to be, with what to use instead."""
    for name, row in ROWS.items():
        where = Position(option=option_name(name))
        if given.get(name) in (None, False):
            continue
        if on_cluster and row.scope is Scope.MACHINE:
            raise InvalidOption("is only for runs on this machine", row.instead, where)
        if not on_cluster and row.scope is Scope.CLUSTER:
            raise InvalidOption("is only for runs on a cluster", ("name one: ", Option("on", "CONTEXT")), where)


def option_name(name: str) -> str:
    """Return the name of an option without a front end, from its name in Python: `max-wait`."""
    return name.rstrip("_").replace("_", "-")


def read_values(
    given: Mapping[str, object], base: Path, environ: Mapping[str, str], *, on_cluster: bool = False
) -> dict[str, Any]:
    """Return values in their types, by their names in Python; None is not given. Raises InvalidOption."""
    unknown = next((name for name in given if name not in ROWS), None)
    if unknown is not None:
        hint = f"{did_you_mean(unknown, tuple(ROWS))} there are {', '.join(sorted(ROWS))}".lstrip()
        raise InvalidOption("unknown option", hint, Position(option=unknown))
    return {
        name: ((on_cluster and ROWS[name].cluster_kind) or ROWS[name].kind).read(
            value, Source(Position(option=option_name(name)), base, environ)
        )
        for name, value in given.items()
        if value is not None
    }
