"""Where a run stands in the queue of this machine, and the refusal of one that must not wait."""

from __future__ import annotations

import datetime as dt

from pumice.diagnosis.why import Why
from pumice.engines.local.preparation.new_record import bound, gang_pods
from pumice.engines.local.preparation.preflight import has_counted_processes
from pumice.engines.local.preparation.run_plan import Plan
from pumice.engines.local.scheduling.own_turn import OwnTurn
from pumice.engines.local.scheduling.plan import Waiting
from pumice.engines.local.scheduling.pod_scheduler import PodScheduler
from pumice.engines.local.scheduling.reservations import Reservations, reservations_directory
from pumice.engines.local.scheduling.run_queue import pod_sets
from pumice.model.findings import SPEC
from pumice.model.problem import Option, Position
from pumice.store.files.run_store import RunStore
from pumice.store.options import Locate, priority_of
from pumice.store.run_errors import DoesNotFit
from pumice.store.run_record import RunStatus


def check_room(plan: Plan) -> None:
    """Raises DoesNotFit if the run would have to wait now."""
    state = plan.settings.state
    with Reservations(reservations_directory(state), plan.job.uid) as reservations:
        scheduler = PodScheduler(plan.machine, reservations)
        why = own_turn(plan, RunStore(state), "0", scheduler, RunStatus()).look()
    if why is not None:
        raise no_room(why, plan.request.source)


def own_turn(plan: Plan, store: RunStore, number: str, scheduler: PodScheduler, status: RunStatus) -> OwnTurn:
    """Return the position of a run in the queue of this machine; a run that waited before, by its status, keeps it."""
    request, job = plan.request, plan.job
    seconds = bound(job, request.options.timeout)
    waiting = Waiting(
        name=f"{job.name}:{number}",
        pods=pod_sets(gang_pods(plan.gang)),
        arrival=status.arrival,
        priority=priority_of(job, request.options),
        scalable=not has_counted_processes(job),
        gpus=plan.machine.gpus,
        bound=None if seconds is None else dt.timedelta(seconds=seconds),
        held_since=status.held,
    )
    specs = {each["metadata"]["name"]: each["spec"] for each in plan.gang}
    granted = status.gpus if status.arrival and status.started is not None else None
    return OwnTurn(store, job.uid, specs, waiting, scheduler, granted)


def no_room(why: Why, locate: Locate) -> DoesNotFit:
    hint = "without ", Option("no-wait", True), " it waits for its turn"
    error = DoesNotFit(f"does not fit now: {why.text}", hint, Position(locate(SPEC).file))
    error.shortages = why.short
    return error
