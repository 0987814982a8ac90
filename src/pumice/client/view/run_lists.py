"""Lists of runs and of pods that are tables: in a notebook as HTML, elsewhere as text. They show what was listed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

from pumice.client.values import PodStatus, Status, changed_code, pods_done
from pumice.client.view.notebook import POD_COLUMNS, pod_row, pods_html
from pumice.client.view.output import table as text_table
from pumice.model.display.notebook_html import division, table

_COLUMNS: Final = ("run", "status", "pods", "attempt", "submitted", "note")


class Handle(Protocol):
    @property
    def ref(self) -> str: ...

    @property
    def uid(self) -> str: ...


H = TypeVar("H", bound=Handle)


class Pods(list[PodStatus]):
    def __repr__(self) -> str:
        return _text(POD_COLUMNS, map(pod_row, self)) if self else "[]"

    def _repr_html_(self) -> str:
        return division(pods_html(self))


class RunList(list[H]):
    """Handles of runs. `statuses` are those of the moment at which they were listed."""

    def __init__(self, runs: Iterable[H] = (), statuses: Sequence[Status] = ()) -> None:
        super().__init__(runs)
        self.statuses = statuses

    def __repr__(self) -> str:
        return _text(_COLUMNS, self._rows()) if self else "[]"

    def _repr_html_(self) -> str:
        return division(table(_COLUMNS, self._rows()))

    def _rows(self) -> Iterator[tuple[str, ...]]:
        """Yield a row for each run; a program may have changed the list."""
        by_uid = {status.uid: status for status in self.statuses}
        for run in self:
            if (status := by_uid.get(run.uid)) is None:
                yield run.ref, *("",) * 5
                continue
            attempts = f"{status.attempt} of {status.max_attempts}" if status.max_attempts else str(status.attempt)
            note = " · ".join(filter(None, (status.identity, changed_code(status), status.message)))
            submitted = f"{status.created.astimezone():%Y-%m-%d %H:%M:%S}"
            yield status.run, str(status.outcome), pods_done(status), attempts, submitted, note


def statuses_of(runs: Sequence[Any]) -> Sequence[Status]:
    return runs.statuses if isinstance(runs, RunList) else ()


def _text(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(text_table([tuple(map(str.upper, columns)), *rows]))
