"""How a Job ended that its client has stopped."""

from __future__ import annotations

from pumice.client.cluster.submission.cluster_lease import stopped_here
from pumice.diagnosis.verdict import plain_verdict
from pumice.store.run_end import INTERRUPTED, TIMED_OUT, RunEnded, Stop
from tests.builders import a_job, a_task

JOB = a_job(a_task("worker", 2))
TIMEOUT = Stop(TIMED_OUT, "Timeout", "train ran longer than its timeout of 2s and was stopped")


def test_a_timeout_that_the_client_keeps_is_what_the_verdict_says() -> None:
    found = stopped_here(RunEnded(JOB, plain_verdict("Command", "a person stopped it")), TIMEOUT)
    assert found.verdict is not None
    assert (found.verdict.reason, found.verdict.message) == ("Timeout", TIMEOUT.message)
    assert found.exit_code == TIMED_OUT


def test_other_stops_keep_the_words_of_the_job() -> None:
    verdict = plain_verdict("Command", "a person stopped it")
    found = stopped_here(RunEnded(JOB, verdict), Stop(INTERRUPTED, "Interrupted"))
    assert (found.verdict, found.exit_code) == (verdict, INTERRUPTED)
    assert stopped_here(RunEnded(JOB), TIMEOUT) == RunEnded(JOB)
