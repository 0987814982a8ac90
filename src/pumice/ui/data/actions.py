"""The actions on a run: which are allowed, what they would do, and carrying them out."""

from __future__ import annotations

from typing import Final, NamedTuple

from pumice.client.local_client import LocalClient
from pumice.client.run_again import run_again
from pumice.engines.local.run_errors import RunError
from pumice.engines.local.runs.owner_lock import read_owner
from pumice.engines.local.runs.run_record import RunStatus
from pumice.engines.local.runs.run_store import StoredRun
from pumice.ui.data.history import RunHistory
from pumice.ui.data.machine import freed_by
from pumice.ui.data.runs import group_of, is_over
from pumice.ui.detail_values import ActionPlan, ActionResult
from pumice.ui.values import Action, Group

SUSPEND, RESUME, RESTART, AGAIN, STOP, DELETE = "suspend", "resume", "restart", "again", "stop", "delete"
ACTIONS: Final = (SUSPEND, RESUME, RESTART, AGAIN, STOP, DELETE)
LABELS: Final = {
    SUSPEND: "Suspend",
    RESUME: "Resume",
    RESTART: "Restart",
    AGAIN: "Run again",
    STOP: "Stop",
    DELETE: "Delete",
}
_COMMANDS: Final = {
    SUSPEND: "pumice suspend {run}",
    RESUME: "pumice resume {run}",
    RESTART: "pumice restart {run}",
    AGAIN: "pumice submit {file}",
    STOP: "pumice stop {run}",
    DELETE: "pumice rm {run}",
}
_GRACE: Final = 30


def actions_of(run: StoredRun, status: RunStatus) -> tuple[Action, ...]:
    """Return the four buttons: Suspend or Resume, Restart or Run again, Stop, Delete."""
    group = group_of(status)
    ended = status.finished is not None
    names = (
        RESUME if group is Group.SUSPENDED else SUSPEND,
        AGAIN if ended else RESTART,
        STOP,
        DELETE,
    )
    found = []
    for name in names:
        why = why_not(run, status, name)
        found.append(Action(name=name, label=LABELS[name], allowed=not why, why_not=why))
    return tuple(found)


def why_not(run: StoredRun, status: RunStatus, name: str) -> str:
    """Return why an action is refused; empty if it is not."""
    group, ended = group_of(status), status.finished is not None
    # The last owner may live on without the run, as the service does.
    owned = read_owner(run.directory).is_alive and run.is_owned
    if not run.is_of_this_host:
        return f"it belongs to {run.record.host}"
    if name == AGAIN:
        secrets = ", ".join(run.record.secrets)
        return f"the values of {secrets} are not stored: submit the file again" if secrets else ""
    if name == DELETE:
        return "" if ended or group is Group.SUSPENDED else "it has not finished: stop it first"
    if ended:
        return f"it has ended: {status.phase}"
    if name == RESUME:
        return "" if group is Group.SUSPENDED else "it is not suspended"
    if name in (SUSPEND, RESTART) and group is Group.SUSPENDED:
        return "it is suspended"
    if name in (SUSPEND, RESTART) and not owned:
        return "it waits for its room" if group is Group.WAITING else "its process was killed"
    return ""


class _Words(NamedTuple):
    """What a dialog says. `{run}`, `{pods}`, `{ends}` and `{name}` are filled in."""

    title: str
    button: str
    now: str
    phases: tuple[str, ...]
    remark: str
    kept: str


_RECORDED: Final = "all that was recorded"
_DIALOGS: Final = {
    SUSPEND: _Words(
        "Suspend {run}?",
        "Suspend {pods}",
        "{ends}",
        ("", "Aborting", "Aborted"),
        "It can be resumed: what has succeeded is not repeated.",
        "all that was recorded, claims, and the results of pods that succeeded",
    ),
    RESUME: _Words(
        "Resume {run}?",
        "Resume",
        "it is queued, and starts when it has room",
        ("", "Pending", "Running"),
        "What has succeeded is not repeated.",
        _RECORDED,
    ),
    RESTART: _Words(
        "Restart {run}?",
        "Restart {pods}",
        "{ends}; then all pods start again",
        ("", "Restarting", "Pending", "Running"),
        "It costs no retry.",
        "logs, events and measurements of all attempts",
    ),
    AGAIN: _Words(
        "Run {name} again?",
        "Run again",
        "a new run of the same Job with the same options is queued",
        ("Pending", "Running"),
        "{run} stays as it is.",
        _RECORDED,
    ),
    STOP: _Words(
        "Stop {run} for good?",
        "Stop {pods}",
        "{ends}",
        ("", "Terminating", "Terminated"),
        "Final: it cannot be resumed. To go on later, suspend it instead.",
        "all that was recorded, until you delete the run",
    ),
    DELETE: _Words(
        "Delete {run}?",
        "Delete",
        "its record, logs and measurements are removed",
        (),
        "Final: nothing of it is left but its claims.",
        "claims and images",
    ),
}


def action_plan(history: RunHistory, name: str) -> ActionPlan:
    """Return what would happen."""
    run, status = history.run, history.run.status()
    why, words = why_not(run, status, name), _DIALOGS[name]
    alive = [life for life in history.of_attempt(history.attempt) if not life.pod.is_finished]
    number = 0 if is_over(run, status) else len(alive)
    phase = status.phase if status.finished is not None else history.job.status.state.phase or status.phase
    pods = f"{number} pod{'' if number == 1 else 's'}"
    ends = (
        f"{pods} get{'s' if number == 1 else ''} SIGTERM, and SIGKILL after {grace_of(run)} s"
        if number
        else "no pod runs"
    )
    texts = {"run": run.ref, "name": run.record.name, "pods": pods if number else run.ref, "ends": ends}
    return ActionPlan(
        name=name,
        title=words.title.format(**texts),
        button=words.button.format(**texts),
        allowed=not why,
        why_not=why,
        danger=name in (STOP, DELETE),
        now=words.now.format(**texts),
        phases=tuple(each or phase for each in words.phases),
        remark=words.remark.format(**texts),
        frees=freed_by(run, status) if number and name in (SUSPEND, STOP) else "",
        kept=words.kept,
        command=_COMMANDS[name].format(run=run.ref, file=run.record.file or "FILE"),
    )


def grace_of(run: StoredRun) -> int:
    """Return the longest grace period of the pods, in seconds."""
    spec = run.record.job.get("spec")
    tasks = spec.get("tasks") if isinstance(spec, dict) else None
    found = [_GRACE]
    for task in tasks if isinstance(tasks, list) else []:
        pod = (task.get("template") or {}).get("spec") or {} if isinstance(task, dict) else {}
        seconds = pod.get("terminationGracePeriodSeconds")
        found += [seconds] if isinstance(seconds, int) else []
    return max(found[1:], default=_GRACE)


def act(client: LocalClient, run: StoredRun, name: str) -> ActionResult:
    """Carry out an action. A refused one has no effect, and the result has the reason."""
    status = run.status()
    why = why_not(run, status, name)
    if why:
        return ActionResult(done=False, message=f"{run.ref}: {why}", uid=run.record.uid, run=run.ref)
    try:
        if name == STOP:
            client.stop(run)
        elif name == RESUME:
            client.resume(run)
        elif name == DELETE:
            client.remove(run, force=group_of(status) is Group.SUSPENDED)
            return ActionResult(done=True, message=f"{run.ref} was deleted")
        elif name == AGAIN:
            again = run_again(client, run)
            found = client.find(again)
            return ActionResult(done=True, message=f"{again} is queued", uid=found.record.uid, run=again)
        else:
            client.call(run, name)
    except (RunError, OSError) as error:
        return ActionResult(done=False, message=str(error), uid=run.record.uid, run=run.ref)
    done = {SUSPEND: "is being suspended", RESUME: "is queued", RESTART: "restarts", STOP: "is being stopped"}[name]
    return ActionResult(done=True, message=f"{run.ref} {done}", uid=run.record.uid, run=run.ref)
