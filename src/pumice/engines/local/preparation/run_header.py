"""What the header of a run says about its plan and about what it holds."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.engines.local.container_spec.header_notes import header_notes
from pumice.engines.local.preparation.preflight import memory_notes, unenforced_limits
from pumice.engines.local.preparation.reservation import Reservation
from pumice.engines.local.preparation.run_plan import Plan
from pumice.model.text import shown_words
from pumice.store.events import RunPlanned


def run_header(plan: Plan, reservation: Reservation, pulled: Iterable[str]) -> RunPlanned:
    """`pulled` has a line for each image that was pulled."""
    options = plan.request.options
    about_pods = header_notes(reservation.inputs, plan.admitted.written, plan.manifests)
    memory = memory_notes(plan.manifests, options.isolation)
    return RunPlanned(
        job=plan.job,
        images=reservation.images.text(plan.manifests),
        host_accesses=plan.host_accesses,
        notes=(
            *([f"args {shown_words(options.args)}"] if options.args else ()),
            *plan.notes,
            *pulled,
            *about_pods,
            *memory,
            *plan.changes,
        ),
        name=reservation.ref,
        directory=str(reservation.files.directory),
        note=options.note,
        unenforced=unenforced_limits(plan.job, options.isolation),
    )
