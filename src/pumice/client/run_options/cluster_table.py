"""The options of a run that apply on a cluster only: a row each, as in `table.py`."""

from typing import Annotated, Literal, TypedDict

from pumice.client.run_options import kinds
from pumice.client.run_options.kinds import Pathlike
from pumice.client.run_options.row import Group, Row
from pumice.store.options import CodeMode, Interrupt


class ClusterRows(TypedDict, total=False):
    """What may be left out as well."""

    code: Annotated[
        Pathlike | bool,
        Row(
            kinds.CODE,
            "ship the code of this directory to the pods; without PATH, the directory of FILE",
            "PATH",
            cluster="code",
            group=Group.CLUSTER,
        ),
    ]
    code_limit: Annotated[
        str | int,
        Row(
            kinds.SIZE,
            "how large the code may be, compressed (default 2Mi, at most 16Mi)",
            "SIZE",
            cluster="code_limit",
            group=Group.CLUSTER,
        ),
    ]
    code_dir: Annotated[
        str,
        Row(
            kinds.TEXT,
            "where pods have the code; default the workingDir of a container, else /workspace",
            "DIR",
            cluster="code_directory",
            group=Group.CLUSTER,
        ),
    ]
    code_mode: Annotated[
        Literal["copy", "read-only"],
        Row(
            kinds.choice(CodeMode, CodeMode),
            "copy (default): unpacked by the image's own sh and tar, or python3; read-only: mounted, for images "
            "without these",
            cluster="code_mode",
            group=Group.CLUSTER,
        ),
    ]
    queue: Annotated[str, Row(kinds.TEXT, "the queue of the Job", "QUEUE", cluster="queue", group=Group.CLUSTER)]
    priority_class: Annotated[
        str,
        Row(
            kinds.TEXT,
            "the PriorityClass of the Job and its pods",
            "NAME",
            cluster="priority_class",
            group=Group.CLUSTER,
        ),
    ]
    name: Annotated[
        str,
        Row(
            kinds.TEXT,
            "the name of the Job",
            "NAME",
            cluster="name",
            has_flag=False,
            group=Group.CLUSTER,
        ),
    ]
    replace: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "delete a finished Job of the same name, with its pods and logs",
            cluster="replace",
            once=True,
            group=Group.CLUSTER,
        ),
    ]
    delete_claims: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "with --replace: also if that Job owns claims, whose data is deleted",
            cluster="delete_claims",
            once=True,
            group=Group.CLUSTER,
        ),
    ]
    on_interrupt: Annotated[
        Literal["stop", "detach"],
        Row(
            kinds.choice(Interrupt, Interrupt),
            "what a signal does without a terminal: stop or detach; default SIGINT stops, SIGTERM detaches, and stops "
            "where CI=true",
            cluster="on_interrupt",
            group=Group.CLUSTER,
        ),
    ]
    yes: Annotated[
        bool,
        Row(
            kinds.SWITCH,
            "with --replace: also a Job that another person submitted",
            cluster="yes",
            once=True,
            group=Group.CLUSTER,
        ),
    ]
