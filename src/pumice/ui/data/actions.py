"""The actions on a run: which are allowed, what they would do, and carrying them out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pumice.client.backend import Backend, RemoveRun, RestartRun, ResumeRun, StopRun, SuspendRun
from pumice.client.observer import Observed, Refusals, Repeat
from pumice.model.problem import FLAGS
from pumice.model.text import plural, shown_words
from pumice.store.run_errors import RunError
from pumice.store.run_record import SECRETS_MISSING, RunRecord
from pumice.ui.data.machine import freed_by
from pumice.ui.detail_values import ActionPlan, ActionResult
from pumice.ui.values import GROUPS, Action, Group

SUSPEND, RESUME, RESTART, AGAIN, STOP, DELETE = "suspend", "resume", "restart", "again", "stop", "delete"
_GRACE: Final = 30


class _Words(NamedTuple):
    """What a button and its dialog say. `{run}`, `{pods}`, `{ends}`, `{name}` and `{again}` are filled in."""

    label: str
    title: str
    button: str
    now: str
    phases: tuple[str, ...]
    remark: str
    kept: str
    command: str = ""


_RECORDED: Final = "all that was recorded"
_WORDS: Final = {
    SUSPEND: _Words(
        "Suspend",
        "Suspend {run}?",
        "Suspend {pods}",
        "{ends}",
        ("", "Aborting", "Aborted"),
        "It can be resumed: what has succeeded is not repeated.",
        "all that was recorded, claims, and the results of pods that succeeded",
        "pumice suspend {run}",
    ),
    RESUME: _Words(
        "Resume",
        "Resume {run}?",
        "Resume",
        "it is queued, and starts when it has room",
        ("", "Pending", "Running"),
        "What has succeeded is not repeated.",
        _RECORDED,
        "pumice resume {run}",
    ),
    RESTART: _Words(
        "Restart",
        "Restart {run}?",
        "Restart {pods}",
        "{ends}; then all pods start again",
        ("", "Restarting", "Pending", "Running"),
        "It costs no retry.",
        "logs, events and measurements of all attempts",
        "pumice restart {run}",
    ),
    # No command does the same: the file, the environment and the configuration may have changed since.
    AGAIN: _Words(
        "Run again",
        "Run {name} again?",
        "Run again",
        "a new run of the same Job with the same options is queued",
        ("Pending", "Running"),
        "{run} stays as it is. {again}",
        _RECORDED,
    ),
    STOP: _Words(
        "Stop",
        "Stop {run} for good?",
        "Stop {pods}",
        "{ends}",
        ("", "Terminating", "Terminated"),
        "Final: it cannot be resumed. To go on later, suspend it instead.",
        "all that was recorded, until you delete the run",
        "pumice stop {run}",
    ),
    DELETE: _Words(
        "Delete",
        "Delete {run}?",
        "Delete",
        "its record, logs and measurements are removed",
        (),
        "Final: nothing of it is left but its claims.",
        "claims and images",
        "pumice rm {run}",
    ),
}
# Logs go with their pods.
_ON_CLUSTER: Final = {
    **_WORDS,
    SUSPEND: _WORDS[SUSPEND]._replace(kept="the Job, its claims, and pods that have ended"),
    RESTART: _WORDS[RESTART]._replace(
        remark="It costs a retry under Volcano's controller, and none under Pumice's.", kept="the Job and its claims"
    ),
    AGAIN: _WORDS[AGAIN]._replace(now="the same Job, with the same code and variables, is created under another name"),
    STOP: _WORDS[STOP]._replace(kept="the Job, its claims, and pods that have ended, until you delete it"),
    DELETE: _WORDS[DELETE]._replace(
        now="the Job, its pods and their logs are deleted", remark="Final: nothing of it is left.", kept=""
    ),
}
ACTIONS: Final = tuple(_WORDS)
_CHANGES: Final[Mapping[str, type[StopRun | SuspendRun | ResumeRun | RestartRun | RemoveRun | Repeat]]] = {
    SUSPEND: SuspendRun,
    RESUME: ResumeRun,
    RESTART: RestartRun,
    AGAIN: Repeat,
    STOP: StopRun,
    DELETE: RemoveRun,
}


def actions_of(seen: Observed, refusals: Refusals) -> tuple[Action, ...]:
    """Return the four buttons: Suspend or Resume, Restart or Run again, Stop, Delete."""
    first = RESUME if GROUPS[seen.status.outcome] is Group.SUSPENDED else SUSPEND
    second = AGAIN if seen.status.finished is not None else RESTART
    reasons = {name: why_not(seen, name, refusals) for name in (first, second, STOP, DELETE)}
    return tuple(
        Action(name=name, label=_WORDS[name].label, allowed=not why, why_not=why) for name, why in reasons.items()
    )


def why_not(seen: Observed, name: str, refusals: Refusals) -> str:
    """Return why an action is refused; empty if it is not."""
    status = seen.status
    group, ended = GROUPS[status.outcome], status.finished is not None
    if (why := refusals.get(_CHANGES[name], "")) and (not ended or name in (AGAIN, DELETE)):
        return why
    if seen.elsewhere:
        return "" if seen.ref.opened and name == DELETE else seen.elsewhere
    if name == AGAIN:
        secrets = ", ".join(seen.record.secrets)
        return f"the values of {secrets} are not stored: submit the file again" if secrets else ""
    if name == DELETE:
        return "" if ended or group is Group.SUSPENDED else "it has not finished: stop it first"
    if ended:
        return "it has ended"
    if name == RESUME:
        if status.reason == SECRETS_MISSING:
            return status.note
        return "" if group is Group.SUSPENDED else "it is not suspended"
    if name in (SUSPEND, RESTART) and group is Group.SUSPENDED:
        return "it is suspended"
    if name in (SUSPEND, RESTART) and not seen.has_process:
        return "it waits for resources" if group is Group.WAITING else "its process was killed"
    return ""


def action_plan(seen: Observed, name: str, refusals: Refusals) -> ActionPlan:
    """Return what would happen. It reads the file of the Job: call it in a thread."""
    history, status, record = seen.history, seen.status, seen.record
    why, words = why_not(seen, name, refusals), (_ON_CLUSTER if seen.flags else _WORDS)[name]
    alive = [life for life in history.lives_of(history.attempt) if not life.pod.is_finished]
    number = 0 if seen.is_over else len(alive)
    phase = status.phase if status.finished is not None else history.job.status.state.phase or status.phase
    pods = plural(number, "pod")
    given = [task.pod_spec.get("terminationGracePeriodSeconds") for task in history.job.spec.tasks]
    grace = max((seconds for seconds in given if isinstance(seconds, int)), default=_GRACE)
    ends = f"{pods} get{'s' if number == 1 else ''} SIGTERM, and SIGKILL after {grace} s" if number else "no pod runs"
    again = _again(record, history.source.text) if name == AGAIN else ""
    texts = {
        "run": record.ref,
        "name": record.name,
        "pods": pods if number else record.ref,
        "ends": ends,
        "again": again,
    }
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
        frees=freed_by(record, status) if number and name in (SUSPEND, STOP) else "",
        kept=words.kept,
        command=" ".join(filter(None, (words.command.format(run=record.ref), seen.flags))) if words.command else "",
    )


def _again(record: RunRecord, source: str) -> str:
    """Say what a new run of the same Job uses: not the file as it is now. `source` is the Job as it was submitted."""
    priority = record.options.get("priority")
    words = [] if priority is None else ["--priority", str(priority)]
    words += ["--note", record.note] if record.note else []
    typed = " ".join([shlex.join(words), *(["--", shown_words(record.args)] if record.args else [])]).strip()
    options = f", with its options ({typed})" if typed else ", with its options"
    has_changed = False
    if source and record.file not in ("", "-"):
        try:
            has_changed = source not in (Path(record.workdir) / record.file).read_text(encoding="utf-8")
        except (OSError, ValueError):
            has_changed = True
    changed = f" {record.file} is no longer the same, and is not used." if has_changed else ""
    return f"The new run uses the Job as {record.ref} was submitted{options}.{changed}"


async def act(backend: Backend, seen: Observed, name: str, refusals: Refusals) -> ActionResult:
    """Carry out an action. A refused one has no effect, and the result has the reason."""
    ref = seen.ref
    if why := why_not(seen, name, refusals):
        return ActionResult(done=False, message=f"{ref}: {why}", uid=ref.uid, run=str(ref))
    is_held = GROUPS[seen.status.outcome] is Group.SUSPENDED
    change = RemoveRun(is_held) if name == DELETE else _CHANGES[name]()
    try:
        if isinstance(change, Repeat):
            again = await backend.repeat(ref)
            done = "was created" if seen.flags else "is queued"
            return ActionResult(done=True, message=f"{again} {done}", uid=again.uid, run=str(again))
        await backend.change(ref, change)
    except (RunError, OSError) as error:
        message = error.text(FLAGS) if isinstance(error, RunError) else str(error)
        return ActionResult(done=False, message=message, uid=ref.uid, run=str(ref))
    if name == DELETE:
        return ActionResult(done=True, message=f"{ref} was deleted")
    done = {SUSPEND: "is being suspended", RESUME: "is queued", RESTART: "restarts", STOP: "is being stopped"}[name]
    return ActionResult(done=True, message=f"{ref} {done}", uid=ref.uid, run=str(ref))
