"""The options of a run that apply on a cluster only: a row each, as in `table.py`."""

from typing import Annotated, Literal, TypedDict

from pumice.client.run_options import kinds
from pumice.client.run_options.kinds import Pathlike
from pumice.client.run_options.row import Row
from pumice.store.options import CodeMode, Interrupt


class ClusterRows(TypedDict, total=False):
    """What may be left out as well. The field of ClusterOptions has the same name, unless `cluster` names it."""

    code: Annotated[
        Pathlike | bool,
        Row(kinds.CODE, "ship the code of this directory to the pods; without PATH, the directory of FILE", "PATH"),
    ]
    code_limit: Annotated[
        str | int, Row(kinds.SIZE, "how large the code may be, compressed (default 2Mi, at most 16Mi)", "SIZE")
    ]
    code_dir: Annotated[
        str,
        Row(
            kinds.TEXT,
            "where pods have the code; default the workingDir of a container, else /workspace",
            "DIR",
            cluster="code_directory",
        ),
    ]
    code_mode: Annotated[
        Literal["copy", "read-only"],
        Row(
            kinds.choice(CodeMode, CodeMode),
            "copy (default): unpacked by the image's own sh and tar, or python3; read-only: mounted, for images "
            "without these",
        ),
    ]
    queue: Annotated[str, Row(kinds.TEXT, "the queue of the Job", "QUEUE")]
    priority_class: Annotated[str, Row(kinds.TEXT, "the PriorityClass of the Job and its pods", "NAME")]
    name: Annotated[str, Row(kinds.TEXT, "the name of the Job", "NAME", has_flag=False)]
    replace: Annotated[
        bool, Row(kinds.SWITCH, "delete a finished Job of the same name, with its pods and logs", once=True)
    ]
    delete_claims: Annotated[
        bool, Row(kinds.SWITCH, "with --replace: also if that Job owns claims, whose data is deleted", once=True)
    ]
    on_interrupt: Annotated[
        Literal["stop", "detach"],
        Row(
            kinds.choice(Interrupt, Interrupt),
            "what a signal does without a terminal: stop or detach; default SIGINT stops, SIGTERM detaches, and stops "
            "where CI=true",
        ),
    ]
    yes: Annotated[bool, Row(kinds.SWITCH, "with --replace: also a Job that another person submitted", once=True)]
