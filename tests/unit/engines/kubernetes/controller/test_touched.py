from __future__ import annotations

import asyncio

from pumice.engines.kubernetes.controller.touched import Touched
from pumice.model.snapshot import JobKey

A, B = JobKey("lab", "a"), JobKey("lab", "b")


def test_each_key_waits_once_and_comes_again_when_it_is_touched_again() -> None:
    async def follow() -> list[JobKey]:
        touched = Touched()
        for key in (A, B, A, A):
            touched.touch(key)
        keys = touched.keys()
        seen = [await anext(keys), await anext(keys)]
        waiting = asyncio.ensure_future(anext(keys))
        await asyncio.sleep(0)
        assert not waiting.done()
        touched.touch(B)
        seen.append(await waiting)
        return seen

    assert asyncio.run(follow()) == [A, B, B]
