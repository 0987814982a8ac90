"""Jobs of hostile shapes, as large as admission lets them be, need little processor time and memory.

`make test` draws two shapes; `make soak` tries all.
"""

from __future__ import annotations

import cProfile
import gc
import random
import tracemalloc
from collections.abc import Iterable

import msgspec
import pytest

from pumice.admission import review
from pumice.admission.admit import admit, admit_stored
from pumice.admission.size_limits import check_size
from pumice.model.job import Job, Manifest
from tests.builders import a_context
from tests.conftest import SOAK, seed
from tests.hostile_jobs import SHAPES, Shape, filled, size

# A review makes about 7 million calls of functions in one second of processor time.
MOST_CALLS = 5_500_000
LARGEST_REQUEST = 1_500_000
MEMORY_AT_REST = 5_000_000


def chosen_shapes() -> Iterable[Shape]:
    names = sorted(SHAPES) if SOAK else random.Random(seed()).sample(sorted(SHAPES), 2)
    return [SHAPES[name] for name in names]


@pytest.mark.parametrize("limit", ["largest request", "largest job"])
def test_any_job_is_reviewed_in_a_second(limit: str) -> None:
    for shape in chosen_shapes():
        job = filled(shape, lambda job: size(job) <= LARGEST_REQUEST and (limit == "largest request" or is_small(job)))
        request = {"uid": "u", "operation": "CREATE", "object": job}
        profile = cProfile.Profile(builtins=True)
        profile.runcall(review.validate, {"request": request}, a_context())
        assert sum(entry.callcount for entry in profile.getstats()) < MOST_CALLS


def test_a_job_that_passes_admission_needs_little_memory() -> None:
    for shape in chosen_shapes():
        document = filled(shape, lambda job: size(job) <= LARGEST_REQUEST and is_small(job))
        raw = msgspec.json.encode(document)
        if not admit(document, a_context()).is_good:
            continue
        gc.collect()
        tracemalloc.start()
        try:
            kept = admit_stored(msgspec.json.decode(raw, type=Job), a_context())
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] < MEMORY_AT_REST
        finally:
            tracemalloc.stop()
        assert kept.is_good


def is_small(job: Manifest) -> bool:
    return not check_size(job)
