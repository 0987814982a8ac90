"""The prefix of log lines: the pod, and the container where a pod has several, in the colour of the task."""

from __future__ import annotations

from typing import Final, Self

from msgspec import Struct, field

from pumice.model.job import Job

# The colours of tasks, each with the shades of its pods.
_COLOURS: Final = tuple((f"3{colour}", f"9{colour}", f"2;3{colour}") for colour in (6, 2, 5, 4, 3))


class LogPrefix(Struct):
    tasks: list[str] = field(default_factory=list)
    unnamed: dict[str, str] = field(default_factory=dict)  # by task, the container that the prefix does not name
    width: int = 0

    @classmethod
    def of(cls, job: Job) -> Self:
        """All prefixes of a job have the width of its longest pod name."""
        unnamed = {}
        for task in job.spec.tasks:
            containers = task.pod_spec.get("containers") or []
            unnamed[task.name] = str(containers[0]["name"]) if len(containers) == 1 else task.name
        names = [f"{task.name}-{max(task.replicas - 1, 0)}" for task in job.spec.tasks]
        return cls([task.name for task in job.spec.tasks], unnamed, max(map(len, names), default=0))

    def text(self, pod: str, container: str, *, coloured: bool) -> str:
        task, _, index = pod.rpartition("-")
        unnamed = container in (self.unnamed.get(task, task), "")
        name = (pod if unnamed else f"{pod} {container}").ljust(self.width)
        if coloured and task in self.tasks:
            shades = _COLOURS[self.tasks.index(task) % len(_COLOURS)]
            name = f"\x1b[{shades[int(index) % len(shades)]}m{name}\x1b[0m"
        return f"{name}  "
