"""What a Job keeps of earlier attempts, whose pods are gone: the log tails in a Secret, if this user may read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.client.cluster.connection import Connection
from pumice.diagnosis.failure_lines import LONGEST, cause_line
from pumice.diagnosis.pod_ends import how_it_failed, one_line
from pumice.diagnosis.why import EvidenceLine
from pumice.engines.kubernetes.api.object_metadata import Secret
from pumice.engines.kubernetes.api.resources import SECRETS
from pumice.model import naming
from pumice.model.job import Job
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.store.logs.log_tails import MOST_ATTEMPTS, LogTail, read_tails
from pumice.store.run_errors import Denied, NoSuchPod, RunError

_SHOWN: Final = 3  # attempts that `why` tells of


class KeptLogs(Struct, frozen=True):
    tails: Sequence[LogTail] = ()
    is_denied: bool = False


async def read_kept_logs(connection: Connection, job: Job) -> KeptLogs:
    """Raises RunError if the cluster does not answer."""
    if not job.status.version and not job.status.retry_count:
        # No controller has deleted a pod of it.
        return KeptLogs()
    try:
        raw = await connection.get(SECRETS, job.namespace, naming.log_tails_secret(job.name))
    except Denied:
        return KeptLogs(is_denied=True)
    secret = Secret() if raw is None else msgspec.json.decode(raw, type=Secret)
    if not secret.metadata.is_owned_by(job.uid):
        return KeptLogs()
    return KeptLogs(list(read_tails(secret.data or {})))


def kept_pod(tail: LogTail) -> ObservedPod:
    """Return the pod as it was, as one of this attempt. What its program said last is in its log."""
    printed = (line.partition(b" ")[2].decode("utf-8", "replace") for line in tail.text.split(b"\n"))
    cause = cause_line([line for line in printed if line.strip()])[:LONGEST]
    ends = tuple(
        replace(end, last_line=end.last_line or cause) if end.container == tail.container else end
        for end in tail.pod.ends
    )
    return replace(tail.pod, phase=PodPhase.FAILED, retry=tail.attempt - 1, ends=ends, deleted_at=None)


def evidence_of_attempts(job: Job, pods: Sequence[ObservedPod], kept: KeptLogs) -> list[EvidenceLine]:
    """Return how the last attempts before this one failed, and whose logs are gone."""
    secret, found = naming.log_tails_secret(job.name), list[EvidenceLine]()
    for tail in kept.tails[-_SHOWN:]:
        pod = kept_pod(tail)
        end = pod.first_failure
        said = "" if end is None or not end.last_line else f"; {one_line(end.last_line)}"
        text = f"{pod.short_name} failed: {how_it_failed(pod, '')}{said}"
        if tail.problem:
            text += f"; its log was not kept: {tail.problem}"
        about = {"kind": "Secret", "name": secret, "field": f"attempt {tail.attempt}"}
        found.append(EvidenceLine(**about, since=pod.ended_at, text=text))
    known = {each.attempt for each in kept.tails}
    known |= {pod.retry + 1 for pod in pods if pod.phase is PodPhase.FAILED}
    if gone := [number for number in range(1, job.status.retry_count + 1) if number not in known]:
        text = f"{_attempts(gone)}: the log of the pod that failed is gone with it; {_why_gone(job, kept)}"
        found.append(EvidenceLine(kind="Job", name=job.name, field="status.retryCount", text=text))
    return found


def check_attempt(job: Job, attempt: int, pods: Sequence[ObservedPod], kept: KeptLogs) -> None:
    """Raises NoSuchPod, or Denied, if there was such an attempt and no line of it can be shown."""
    tail = next((each for each in kept.tails if each.attempt == attempt), None)
    if any(pod.retry + 1 == attempt for pod in pods) or (tail is not None and tail.text):
        return
    if tail is not None:
        why = tail.problem or "it printed nothing"
        raise NoSuchPod(f"{job.name}: attempt {attempt}: {tail.pod.short_name} failed, and its log was not kept: {why}")
    if attempt <= job.status.retry_count:
        text = f"{job.name}: attempt {attempt}: its logs are gone with its pods"
        error: type[RunError] = Denied if kept.is_denied else NoSuchPod
        raise error(text, _why_gone(job, kept))


def _why_gone(job: Job, kept: KeptLogs) -> str:
    if kept.is_denied:
        return f"if lines are kept, they are in Secret {naming.log_tails_secret(job.name)}, not readable for you"
    if kept.tails:
        return f"at most {MOST_ATTEMPTS} attempts are kept"
    return "an administrator keeps the last lines of later ones: pumice install --keep-log-tails"


def _attempts(numbers: Sequence[int]) -> str:
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in ranges]
    return f"attempt{'s' if len(numbers) > 1 else ''} {', '.join(texts)}"
