"""What the page shows of runs that were made up: every kind of run, many pods, damaged and hostile ones."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pumice.client.local.local_backend import LocalBackend
from pumice.engines.local.scheduling.machine import read_machine
from pumice.store.files.run_store import RECORD, RunStore
from pumice.ui import pages
from pumice.ui.data.jobs import NoSuchJobError
from pumice.ui.detail_values import Frame
from pumice.ui.queries import OVERVIEW, TABS, BadQueryError, JobPosition, JobQuery, group_of_query
from pumice.ui.values import Group, Job, PodState
from scripts.made_jobs import JOBS
from scripts.made_runs import Ends, RunMaker, Story, Try
from scripts.made_stories import _HOSTILE, RESTART_JOB, bert, stories, sweep
from tests.unit.ui.called import Called

NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
MANY = 200


class Made:
    """A store with made-up runs, and the page of it."""

    def __init__(self, directory: Path) -> None:
        self.maker = RunMaker(RunStore(directory / "pumice"), directory / "jobs", NOW)
        self.data = Called(LocalBackend({"XDG_STATE_HOME": str(directory)}, now=lambda: NOW))

    def job(self, run: str) -> Job:
        job: Job = self.data.job(run)
        return job


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    found = Made(tmp_path_factory.mktemp("state"))
    for story in stories():
        found.maker.make(sweep(MANY) if story.job == "sweep-1000" else story)
    yield found
    for lock in found.maker.locks:
        lock.release()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Made]:
    found = Made(tmp_path)
    yield found
    for lock in found.maker.locks:
        lock.release()


def test_the_list_has_active_runs_first_and_counts_all(made: Made) -> None:
    listing = made.data.listing(Group.ALL, "", "")
    assert [row.group for row in listing.items][:5] == [*[Group.ACTIVE] * 2, *[Group.WAITING] * 2, Group.SUSPENDED]
    assert listing.counts == {
        Group.ALL: 9,
        Group.ACTIVE: 2,
        Group.WAITING: 2,
        Group.FAILED: 2,
        Group.SUSPENDED: 1,
        Group.STOPPED: 0,
        Group.DONE: 2,
    }
    assert [row.name for row in made.data.listing(Group.FAILED, "", "").items] == ["hostile", "bert-pretrain"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("bert", {"bert-pretrain"}),
        ("QUEUE", set()),
        ("train pytorch", {"bert-pretrain", "llama-ft", "qwen-sft"}),
        ("shard", {"eval-mmlu"}),
        ("nothing", set()),
    ],
)
def test_the_filter_looks_at_names_tasks_queues_and_plugins(made: Made, words: str, names: set[str]) -> None:
    assert {row.name for row in made.data.listing(Group.ALL, words, "").items} == names


def test_sentences_begin_with_failures(made: Made) -> None:
    texts = {row.name: row.text for row in made.data.listing(Group.ALL, "", "").items}
    many = f"sweep-{MANY}"
    assert texts[many].startswith("1 failed: trial-23 first (exit code 1), ")
    assert texts[many].endswith(f", minSuccess {MANY * 19 // 20} can still be reached")
    assert texts["llama-ft"] == "6 of 6 running"
    assert texts["horovod"] == "4 succeeded, in the 2nd attempt"
    assert texts["dlrm-nightly"] == "suspended by you: it can be resumed"
    assert texts["bert-pretrain"].startswith("worker-3 failed first: exit code 1")
    assert "cpu: 24 wanted" in texts["eval-mmlu"]


def test_the_verdict_names_the_first_failure_the_followers_and_earlier_attempts(made: Made) -> None:
    job = made.job("bert-pretrain")
    verdict = job.verdict
    assert verdict is not None
    assert (verdict.pod, verdict.code, verdict.signal) == ("worker-3", 1, None)
    assert verdict.line.startswith("torch.OutOfMemoryError")
    others = [f"worker-{index}" for index in (0, 1, 2, 4, 5, 6)]
    assert [each.pod for each in verdict.followers] == ["master-0", *others]
    assert verdict.followers[0].after == pytest.approx(0.3)
    assert job.before == "worker-3 failed first in all 3 attempts, with the same last line"
    assert verdict.policy is not None
    assert str(verdict.policy).startswith("PodFailed -> RestartJob (policies[1], ")
    assert (verdict.policy.path, verdict.policy.line) == ("spec.policies[1]", 12)
    assert verdict.next.startswith("pumice logs bert-pretrain:1/worker-3")
    assert job.budget is not None
    assert (job.budget.spent, job.budget.limit, job.budget.line) == (3, 3, 7)
    assert [each.then for each in job.attempts] == [
        "PodFailed → RestartJob",
        "PodFailed → RestartJob",
        "no retry left for PodFailed → RestartJob",
    ]
    states = dict(zip((task.name for task in job.tasks), (task.states for task in job.tasks), strict=True))
    assert states["master"] == (PodState.FOLLOWED,)
    assert states["worker"].count(PodState.FOLLOWED) == 6
    assert states["worker"][3] is PodState.FIRST


def test_the_timeline_has_a_line_per_pod_over_all_attempts(made: Made) -> None:
    found = made.data.timeline(JobQuery("bert-pretrain"))
    assert (found.total, len(found.pods), found.live, found.buckets) == (8, 8, False, ())
    assert [line.pod for line in found.pods][:2] == ["master-0", "worker-0"]
    third = next(line for line in found.pods if line.pod == "worker-3")
    runs = [part for part in third.segments if part.kind == "run"]
    assert [(part.attempt, part.exit_code, part.state) for part in runs] == [
        (number, 1, PodState.FIRST) for number in (1, 2, 3)
    ]
    assert all(part.end is not None and part.end >= part.start for line in found.pods for part in line.segments)
    fifth = next(line for line in found.pods if line.pod == "worker-5")
    assert [part.exit_code for part in fifth.segments if part.state is PodState.RESTARTING] == [42]
    assert [mark.attempt for mark in found.failures if mark.first] == [1, 2, 3]
    only = made.data.timeline(JobQuery("bert-pretrain", attempt=2))
    assert {part.attempt for line in only.pods for part in line.segments} == {2}
    assert found.begin <= only.begin < only.end <= found.end


@pytest.mark.parametrize(
    ("run", "kind", "words"),
    [
        ("bert-pretrain", "card verdict", "worker-3 failed first: exit code 1 after 4m10s (attempt 3 of 3)."),
        ("dlrm-nightly", "card verdict hold", "suspended by you: it can be resumed"),
        (f"sweep-{MANY}", "card verdict warn", "1 failed: trial-23 first (exit code 1), "),
        ("llama-ft", "card verdict run", "6 of 6 running"),
        ("horovod", "card verdict ok", "4 succeeded, in the 2nd attempt"),
    ],
)
def test_the_head_of_a_job_says_what_is_going_on(made: Made, run: str, kind: str, words: str) -> None:
    page = pages.job_page(made.data.job_view(Frame(made.data.info(), "token"), JobQuery(run)))
    section = page.partition(f'<section class="{kind}"')[2].partition("</h2>")[0].partition("<h2>")[2]
    counted = section.partition('<span class="c-fail">')[2].partition("</span>")[0]
    assert section.replace('<span class="c-fail">', "").replace("</span>", "").startswith(words)
    assert counted == ("1 failed: trial-23 first " if run.startswith("sweep") else ""), "a number of pods stands out"
    assert (f"<span>minSuccess <b>{MANY * 19 // 20}</b> (line " in page) == run.startswith("sweep")


def test_many_pods_are_counted_over_time_and_few_stand_out(made: Made) -> None:
    found = made.data.timeline(JobQuery(f"sweep-{MANY}", buckets=50))
    assert (found.total, len(found.buckets), found.live) == (MANY, 50, True)
    assert found.pods[0].pod == "trial-23"
    assert 1 < len(found.pods) <= 12
    assert {line.state for line in found.pods} <= {PodState.FIRST, PodState.WAITING}, "most run long: none is slow"
    last = found.buckets[-1]
    assert (last.failed, last.waiting) == (1, len([1 for index in range(MANY - 4, MANY) if index % 3]))
    assert all(each.waiting + each.running + each.done + each.failed == MANY for each in found.buckets[1:])
    every = made.data.timeline(JobQuery(f"sweep-{MANY}", every=True))
    assert [line.pod for line in every.pods] == [f"trial-{index}" for index in range(MANY)]
    assert {line.pod: line.note for line in every.pods}["trial-23"] == found.pods[0].note


def test_a_pod_that_prints_nothing_any_more_stands_out(alone: Made) -> None:
    def lines(pod: str, _attempt: int) -> list[tuple[float, str, str]]:
        return [(10.0, "stdout", "begin"), *([] if pod == "trial-7" else [(2890.0, "stdout", "still here")])]

    run = alone.maker.make(replace(sweep(MANY), lines=lines))
    query = JobQuery(run.record.uid)
    assert "trial-7" not in [line.pod for line in alone.data.timeline(query).pods], "the logs were not read yet"
    alone.data.logs(query)
    found = {line.pod: line.note for line in alone.data.timeline(query).pods}
    assert found["trial-7"].startswith("no line for 48m")


def test_pods_have_ranks_addresses_limits_and_measurements(made: Made) -> None:
    page = made.data.pods(JobQuery("bert-pretrain"))
    assert [(row.pod, row.rank) for row in page.items][:3] == [("master-0", 0), ("worker-0", 1), ("worker-1", 2)]
    row = page.items[4]
    assert (row.pod, row.state, row.exit_code, row.cpu_limit, row.memory_limit) == (
        "worker-3",
        PodState.FIRST,
        1,
        6.0,
        24 << 30,
    )
    assert row.address.startswith("10.77.")
    assert len(row.cpu_points) == 40
    assert row.memory is not None
    assert row.gpu is not None
    assert page.counts == {PodState.FIRST: 1, PodState.FOLLOWED: 7}
    second = made.data.pods(JobQuery("bert-pretrain", attempt=2))
    assert {row.pod: row.restarts for row in second.items}["worker-5"] == 1


def test_plots_have_a_line_per_pod_or_a_band_and_outliers(made: Made) -> None:
    few = made.data.metrics(JobQuery("bert-pretrain", pod="worker-3"))
    assert [metric.name for metric in few.metrics] == ["cpu", "memory", "gpu", "gpuMemory"]
    assert few.metrics[0].series[0].pod == "worker-3"
    assert len(few.metrics[0].series) == 8
    assert few.metrics[0].limit == 6.0
    many = made.data.metrics(JobQuery(f"sweep-{MANY}"))
    assert [metric.name for metric in many.metrics] == ["cpu", "memory"]
    cpu = many.metrics[0]
    assert len(cpu.series) <= 6
    lines = zip(cpu.low, cpu.median, cpu.high, strict=True)
    assert all(low <= middle <= high for low, middle, high in lines if None not in (low, middle, high))
    assert made.data.metrics(JobQuery("horovod")).message == "nothing was measured"


def test_a_waiting_job_shows_what_is_short_and_the_queue(made: Made) -> None:
    job = made.job("qwen-sft")
    assert job.waiting is not None
    assert (job.group, job.waiting.pods) == (Group.WAITING, 8)
    assert {each.resource for each in job.waiting.short} == {"CPU", "memory", "GPU"}
    (hint,) = job.waiting.hints
    assert hint.text.startswith("It wants more than this machine has.")
    assert hint.command.endswith("qwen-sft.yaml --fit")
    assert [each.job for each in job.waiting.queue if each.is_this] == ["qwen-sft:1"]
    assert {"llama-ft:1", f"sweep-{MANY}:1"} <= {each.job for each in job.waiting.queue if each.position is None}
    page = pages.jobs_page(Frame(made.data.info(), "token"), made.data.listing(Group.WAITING, "qwen", ""))
    assert "0 of 8, starts all together" in page
    page = pages.job_page(made.data.job_view(Frame(made.data.info(), "token"), JobQuery("qwen-sft")))
    hints = page.partition("What would start it now</h2>")[2].partition("</section>")[0]
    assert f"<p>{hint.text}</p>" in hints
    assert f"<code>{hint.command}</code>" in hints
    assert made.data.logs(JobQuery("qwen-sft")).total == 0
    assert made.data.timeline(JobQuery("qwen-sft")).pods == ()


def test_rendered_pods_show_where_everything_comes_from(made: Made) -> None:
    found = made.data.rendered(JobQuery("bert-pretrain", pod="worker-3", compare="worker-1"))
    items = {item.name: item for item in found.items if item.kind == "env"}
    assert (found.rank, found.world, found.compare) == (4, 8, "worker-1")
    assert (found.ranks, made.data.rendered(JobQuery("eval-mmlu")).ranks) == (tuple(range(8)), ())
    assert (items["DATA_DIR"].by, items["DATA_DIR"].line, items["DATA_DIR"].per_pod) == ("you", 46, False)
    rank = items["RANK"]
    assert (rank.by, rank.value, rank.per_pod, rank.other, rank.differs) == ("pytorch", "4", True, "2", True)
    assert "volcano.sh/job-retry-count: '2'" in found.manifest.replace('"', "'")
    assert made.data.rendered(JobQuery("bert-pretrain", pod="none-1")).message == "none-1: no such pod"
    assert made.data.rendered(JobQuery("eval-mmlu")).manifest.startswith("apiVersion: v1\nkind: Pod\n")


def test_policies_name_each_firing_and_why_others_did_not_fire(made: Made) -> None:
    found = made.data.policies(JobQuery("bert-pretrain"))
    first, *others = found.items
    assert (first.path, first.lines, len(first.firings)) == ("spec.policies[1]", (12, 13), 3)
    assert first.firings[-1].text == "worker-3: 3 of 3 spent, so the job is Failed instead"
    assert {row.path: row.why_not for row in others} == {
        "spec.policies[0]": "no pod was evicted",
        "tasks[0].policies[0]": "the task did not complete",
        "tasks[1].policies[0]": "no container ended with 42",
    }
    assert found.rehearse.startswith("pumice simulate bert-pretrain.yaml --fail worker-3@")


def test_the_file_is_shown_as_it_was_submitted_with_its_lines_marked(made: Made) -> None:
    path = made.maker.files / "bert-pretrain.yaml"
    submitted = path.read_text().splitlines()
    path.write_text("changed since\n")
    found = made.data.file(JobQuery("bert-pretrain"))
    assert (found.as_submitted, list(found.lines)) == (True, submitted)
    assert found.marks == {7: "budget", 12: "fired", 13: "fired"}


def test_only_the_document_of_the_job_is_kept(alone: Made) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter2}\n"
    text = f"{secret}---\n# why\n{JOBS['pytorch-job']}---\n{secret}"
    run = alone.maker.make(Story("pytorch-job", [Try(1.0)], "Completed", text=text))
    found = alone.data.file(JobQuery(run.record.uid))
    assert found.lines[:6] == ("", "", "", "", "", "# why")
    assert found.lines[6] == "apiVersion: batch.volcano.sh/v1alpha1"
    assert "hunter2" not in (run.directory / "run.json").read_text()


def test_a_long_list_has_pages(alone: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumice.ui.data.jobs.PAGE", 2)
    for number in range(5):
        alone.maker.make(Story("pytorch-job", [Try(1.0)], "Completed", 100.0 * number))
    (alone.maker.store.runs / "default" / "pytorch-job" / "9").mkdir()
    seen, after, said = [], "", []
    while True:
        listing = alone.data.listing(Group.ALL, "", after)
        page = pages.jobs_page(Frame(alone.data.info(), "token"), listing)
        said.append(page.partition(" of 6 jobs")[0].rpartition("> ")[2])
        seen += [row.run for row in listing.items]
        if not (after := listing.after):
            break
    assert sorted(seen) == [f"pytorch-job:{number}" for number in (1, 2, 3, 4, 5, 9)]
    assert said == ["1 to 2", "3 to 4", "5 to 6"]
    none = alone.data.listing(Group.WAITING, "pytorch", "")
    page = pages.jobs_page(Frame(alone.data.info(), "token"), none)
    assert "No job matches “pytorch” among those under “Waiting”." in page
    assert "6 jobs under other filters" in page


def test_a_file_that_was_not_kept_is_written_again(alone: Made) -> None:
    text = JOBS["pytorch-job"] + "# a long remark\n" * 20_000
    run = alone.maker.make(Story("pytorch-job", [Try(1.0)], "Completed", text=text))
    found = alone.data.file(JobQuery(run.record.uid))
    assert (found.as_submitted, found.marks) == (False, {})
    assert "  minAvailable: 3" in found.lines


def test_actions_say_why_they_are_disabled_and_what_would_happen(made: Made) -> None:
    actions = {each.name: each.why_not for each in made.job("llama-ft").actions}
    assert actions == {"suspend": "", "restart": "", "stop": "", "delete": "it has not finished: stop it first"}
    suspended = made.job("dlrm-nightly")
    assert [each.name for each in suspended.actions] == ["resume", "restart", "stop", "delete"]
    assert suspended.ran == 600.0, "it ran until it was suspended"
    ended = {each.name: each.allowed for each in made.job("bert-pretrain").actions}
    assert ended == {"suspend": False, "again": True, "stop": False, "delete": True}
    plan = made.data.action_plan("llama-ft", "stop")
    assert (plan.button, plan.danger, plan.frees) == ("Stop 6 pods", True, "6 GPUs, 36 CPUs, 144 GiB memory")
    assert plan.now == "6 pods get SIGTERM, and SIGKILL after 30 s"
    waits = {each.name: each.why_not for each in made.job("eval-mmlu").actions}
    assert waits["suspend"] == waits["restart"] == "it waits for resources"
    assert waits["stop"] == ""
    refused = made.data.act("bert-pretrain", "stop")
    assert (refused.done, refused.message) == (False, "bert-pretrain:1: it has ended")


def test_run_again_names_what_the_new_run_uses_and_no_command(alone: Made) -> None:
    """D17: `pumice submit FILE` would run the file as it is now, without the options of the run."""
    run = alone.maker.make(Story("pytorch-job", (), "Pending", note="urgent"))
    plan = alone.data.action_plan(run.record.uid, "again")
    assert plan.command == ""
    assert "uses the Job as pytorch-job:1 was submitted, with its options (--note urgent)." in plan.remark
    file = Path(run.record.workdir) / run.record.file
    file.parent.mkdir(parents=True, exist_ok=True)
    for text, same in ((run.source.text, True), ("kind: Job", False)):
        file.write_text(text)
        remark = alone.data.action_plan(run.record.uid, "again").remark
        assert ("is no longer the same" not in remark) is same


def test_arguments_are_shown_beside_the_note_found_and_escaped(alone: Made) -> None:
    run = alone.maker.make(Story("pytorch-job", (), "Pending", note="urgent"))
    args = ["--lr", "0.1", "<b>", "--key=***"]
    record = msgspec.structs.replace(run.record, args=args)
    (run.directory / RECORD).write_bytes(msgspec.json.encode(record))
    [row] = alone.data.listing(Group.ALL, "0.1 urgent", "").items
    assert (row.args, row.identity) == (tuple(args), "--lr 0.1 '<b>' --key=*** · urgent")
    assert alone.data.listing(Group.ALL, "0.2", "").items == ()
    frame, shown = Frame(alone.data.info(), "token"), "--lr 0.1 &#39;&lt;b&gt;&#39; --key=***"
    assert f">{shown} · urgent<" in pages.jobs_page(frame, alone.data.listing(Group.ALL, "", ""))
    remark = alone.data.action_plan(run.record.uid, "again").remark
    assert "with its options (--note urgent -- --lr 0.1 '<b>' --key=***)." in remark


def test_events_of_many_pods_are_one_with_a_count(made: Made) -> None:
    found = made.data.events(JobQuery(f"sweep-{MANY}"))
    created = next(each for each in found.items if each.reason == "PodPending")
    assert (created.count, len(created.pods)) == (MANY, 64)
    assert found.total > 2 * MANY
    assert len(found.items) < 20


def test_hostile_text_arrives_as_data_only(made: Made) -> None:
    job = made.job("hostile")
    assert job.note == _HOSTILE
    assert job.last_line is not None
    assert job.last_line.text == _HOSTILE
    lines = made.data.logs(JobQuery("hostile")).items
    assert _HOSTILE in [line.text for line in lines]
    assert any(line.cut == 20_000 for line in lines)
    plain = json.loads(msgspec.json.encode(job))
    assert plain["note"] == _HOSTILE
    assert b"\n" not in msgspec.json.encode(made.data.logs(JobQuery("hostile"))), "an event of the stream is one line"


@pytest.mark.parametrize("tab", TABS)
def test_every_tab_of_every_job_has_its_values(made: Made, tab: str) -> None:
    frame = Frame(made.data.info(), "token")
    for row in made.data.listing(Group.ALL, "", "").items:
        query = JobQuery(row.uid, tab=tab)
        view = made.data.job_view(frame, query)
        if tab == OVERVIEW:
            view = made.data.with_logs(view, query)
        needed: dict[str, tuple[Any, ...]] = {
            "overview": (view.timeline, view.pods, view.logs, view.volume, view.metrics),
            "resources": (view.metrics, view.pods),
            "rendered": (view.rendered,),
            "events": (view.events,),
            "policies": (view.policies, view.file),
        }
        assert None not in needed[tab]


@pytest.mark.parametrize("tab", TABS)
def test_a_page_of_a_hostile_job_has_no_markup_of_it(made: Made, tab: str) -> None:
    frame, query = Frame(made.data.info(), "token"), JobQuery("hostile", tab=tab, q="<script>")
    view = made.data.with_logs(made.data.job_view(frame, query), query)
    listing = pages.jobs_page(frame, made.data.listing(Group.ALL, "", ""))
    for page in (pages.job_page(view), listing):
        assert "hostile" in page
        assert "<script>fetch" not in page
        assert "<img src=x" not in page
        assert "<script>alert" not in page
        assert not set(page) & set("\x1b\x07\x00\u202e\u202c"), "control and direction characters are not sent"
        assert " onerror=" not in page.replace(" onerror=alert(1)&gt;", "")


# --- changes, damage, bad queries ---------------------------------------------------------------------------------


def test_a_new_run_and_a_removed_one_are_changes_of_the_list(alone: Made) -> None:
    seen, changes = alone.data.changed_jobs(None)
    assert changes == []
    run = alone.maker.make(Story("pytorch-job", [Try(1.0)], "Completed"))
    seen, changes = alone.data.changed_jobs(seen)
    assert [(kind, getattr(value, "run", "")) for kind, value in changes] == [("job", "pytorch-job:1"), ("jobs", "")]
    assert alone.data.changed_jobs(seen)[1] == []
    assert alone.data.act(run.record.uid, "delete").done
    seen, changes = alone.data.changed_jobs(seen)
    assert [(kind, value["gone"]) for kind, value in changes] == [("jobs", 1)]
    with pytest.raises(NoSuchJobError) as caught:
        alone.data.job(run.record.uid)
    assert caught.value.gone == ("pytorch-job:1", NOW)
    with pytest.raises(NoSuchJobError, match=r"^never: no run has this uid$"):
        alone.data.job("never")


def test_a_stream_continues_where_the_browser_was(alone: Made) -> None:
    run = alone.maker.make(bert())
    query = JobQuery(run.record.uid, attempt=0)
    at, changes = alone.data.changed_job(query, JobPosition())
    assert [kind for kind, _ in changes] == ["job", "event", "phase", "pod", "metric"]
    assert alone.data.changed_job(query, at) == (at, [])
    first = alone.data.new_lines(query, at)
    assert first is not None
    assert (first.items, first.at) == ((), first.total)
    missed = alone.data.new_lines(query, JobPosition(at.seq, first.total - 3, at.samples))
    assert missed is not None
    assert [line.number for line in missed.items] == [first.total - 3, first.total - 2, first.total - 1]
    assert alone.data.new_lines(query, JobPosition(at.seq, first.total, at.samples)) is None
    assert JobPosition.parse(str(JobPosition(1, 2, 3))) == JobPosition(1, 2, 3)
    assert JobPosition.parse("1.x.3") == JobPosition.parse("") == JobPosition.parse("1.2") == JobPosition()


def test_what_a_waiting_run_lacks_is_held_by_another_run(alone: Made) -> None:
    cpus = len(read_machine().cpus)
    hog = JOBS["pytorch-job"].replace("env:", f"resources: {{limits: {{cpu: {cpus}}}}}\n            env:", 1)
    holder = alone.maker.make(Story("pytorch-job", [Try(None)], "Running", 500.0, text=hog))
    record = msgspec.structs.replace(holder.record, bound=7200.0)
    (holder.directory / RECORD).write_bytes(msgspec.json.encode(record))
    small = JOBS["horovod"].replace("cpu: 1", "cpu: 100m").replace("memory: 1Gi", "memory: 1Mi")
    run = alone.maker.make(Story("horovod", (), "Pending", 100.0, text=small))
    job = alone.job(run.record.uid)
    assert job.waiting is not None
    assert (job.waiting.code, job.waiting.position) == ("Resources", 1)
    (cpu,) = [each for each in job.waiting.short if each.short]
    assert (cpu.resource, cpu.wanted, cpu.free, cpu.short) == ("CPU", "0.4", "0", "0.4")
    assert [(each.job, each.phase) for each in cpu.held_by] == [("pytorch-job:1", "Running")]
    assert job.text.startswith("cpu: 0.4 wanted, 0 free; pytorch-job:1 holds")
    page = pages.job_page(alone.data.job_view(Frame(alone.data.info(), ""), JobQuery(run.record.uid)))
    assert re.search(r" holds [\d.]+, until ~\d\d:\d\d: its time limit\.", page)
    assert [(each.position, each.job) for each in job.waiting.queue] == [(None, "pytorch-job:1"), (1, "horovod:1")]
    query = JobQuery(run.record.uid)
    waiting, changes = alone.data.changed_waiting(query, None)
    assert [(kind, value.waiting) for kind, value in changes] == [("job", waiting)]
    assert alone.data.changed_waiting(query, waiting) == (waiting, [])
    alone.maker.make(Story("horovod", (), "Pending", 90.0, text=small))
    alone.data.data.observer.forget()
    assert len(alone.data.changed_waiting(query, waiting)[1]) == 1, "the queue is another one"
    assert alone.data.changed_waiting(JobQuery("pytorch-job:1"), None) == (None, [])
    reserved = alone.data.info().reserved
    assert [each.job for each in reserved] == ["pytorch-job:1"]


def test_a_browser_that_missed_too_much_sees_the_gap(alone: Made) -> None:
    def lines(_pod: str, _attempt: int) -> list[tuple[float, str, str]]:
        return [(1.0 + number / 1000, "stdout", f"line {number}") for number in range(400)]

    run = alone.maker.make(Story("horovod", [Try(9.0)], "Completed", lines=lines))
    found = alone.data.new_lines(JobQuery(run.record.uid), JobPosition(0, 3, 0))
    assert found is not None
    assert found.total > 1600
    assert (found.at, len(found.items), found.items[0].number) == (found.total - 500, 500, found.total - 500)
    shared = alone.data.new_lines(JobQuery(run.record.uid), JobPosition(0, 3, 0), 0.5)
    assert shared is not None
    assert (shared.at, shared.share, shared.rate) == (3, -(-(found.total - 3) // 250), (found.total - 3) * 2)
    assert len(shared.items) <= 250
    of_pod = alone.data.new_lines(JobQuery(run.record.uid, pod="worker-1"), JobPosition(0, 0, 0), 0.5)
    assert of_pod is not None
    assert (of_pod.share, len(of_pod.items)) == (1, of_pod.total), "of a chosen pod all lines are sent"


def test_pods_that_are_plain_processes_have_addresses_on_loopback(alone: Made) -> None:
    run = alone.maker.make(Story("horovod", [Try(9.0)], "Completed"))
    record = msgspec.structs.replace(run.record, options={"isolation": "process"})
    (run.directory / "run.json").write_bytes(msgspec.json.encode(record))
    assert [row.address for row in alone.data.pods(JobQuery(run.record.uid)).items][:2] == [
        "127.77.0.10",
        "127.77.0.11",
    ]


@pytest.mark.parametrize("name", ["run.json", "status.json"])
def test_a_pipe_in_place_of_a_file_does_not_stop_the_list(alone: Made, name: str) -> None:
    run = alone.maker.make(Story("pytorch-job", [Try(3.0, [Ends("master-0", 2.0)])], "Completed"))
    (run.directory / name).unlink()
    os.mkfifo(run.directory / name)
    (row,) = alone.data.listing(Group.ALL, "", "").items
    assert (row.run, bool(row.damaged)) == (run.ref, name == "run.json")


def test_damaged_runs_are_listed_with_what_is_wrong(alone: Made) -> None:
    for damage in ("run.json", "status.json", "journal.jsonl"):
        run = alone.maker.make(
            Story("pytorch-job", [Try(3.0, [Ends("master-0", 2.0, 1, "bad")], RESTART_JOB)], "Failed")
        )
        (run.directory / damage).write_bytes(b'{"seq": 1, "time": "never\x00\n{}\n' * 3)
    (alone.maker.store.runs / "default" / "pytorch-job" / "9").mkdir()
    rows = {row.run: row for row in alone.data.listing(Group.ALL, "", "").items}
    assert sorted(rows) == [f"pytorch-job:{number}" for number in (1, 2, 3, 9)]
    assert rows["pytorch-job:1"].damaged.startswith("run.json cannot be read")
    nine = alone.maker.store.runs / "default" / "pytorch-job" / "9"
    files = f"its files are in {nine}: remove them if you do not need them"
    assert rows["pytorch-job:9"].damaged == f"run.json is missing; {files}"
    assert {row.group for row in rows.values()} == {Group.FAILED}
    assert alone.data.listing(Group.ALL, "", "").counts[Group.FAILED] == 4, "what cannot be read neither waits nor runs"
    page = pages.jobs_page(Frame(alone.data.info(), "token"), alone.data.listing(Group.ALL, "", ""))
    assert 'href="/jobs/"' not in page, "a run without a record has no page"
    assert page.count('id="job-pytorch-job:9"') == 1
    assert rows["pytorch-job:3"].damaged == "6 entries of the journal cannot be read"
    for number in (2, 3):
        query = JobQuery(rows[f"pytorch-job:{number}"].uid)
        for read in (alone.data.timeline, alone.data.pods, alone.data.logs, alone.data.events, alone.data.policies):
            read(query)


def test_a_journal_of_another_version_and_half_a_line_are_read(alone: Made) -> None:
    run = alone.maker.make(Story("pytorch-job", [Try(1.0)], "Completed"))
    journal = run.directory / "journal.jsonl"
    with journal.open("ab") as file:
        file.write(b'{"seq":900,"time":"2026-01-01T00:00:00Z","t":1,"kind":"FromTheFuture","data":{"message":"hi"}}\n')
        file.write(b'{"seq":901,"time":"2026')
    assert "hi" in [event.message for event in alone.data.events(JobQuery(run.record.uid)).items]
    with journal.open("ab") as file:
        file.write(b'-01-01T00:00:00Z","t":1,"kind":"FromTheFuture","data":{"message":"ho"}}\n')
    assert "ho" in [event.message for event in alone.data.events(JobQuery(run.record.uid)).items]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"stream": "both"}, "stream: both: must be stdout or stderr"),
        ({"tab": "all"}, "tab: all: must be one of overview, resources, rendered, events, policies"),
        ({"at": "1e9"}, "at: 1e9: must be a whole number"),
        ({"at": "9" * 40}, f"at: {'9' * 40}: must be a whole number"),
        ({"attempt": "last"}, "attempt: last: must be a whole number"),
        ({"q": "x" * 301}, "q: longer than 300 characters"),
    ],
)
def test_a_bad_query_is_refused(query: dict[str, str], message: str) -> None:
    with pytest.raises(BadQueryError) as caught:
        JobQuery.of("uid", query)
    assert str(caught.value) == message


def test_queries_are_read() -> None:
    query = JobQuery.of("uid", {"attempt": "all", "at": "12", "step": "5", "tab": "", "after": "7", "every": "1"})
    assert (query.attempt, query.at, query.step, query.tab, query.after_number) == (0, 12, 5.0, "overview", 7)
    assert (query.log_filter(3).attempt, query.every, JobQuery.of("uid", {}).every) == (0, True, False)
    assert JobQuery("uid").log_filter(3).attempt == 3
    assert group_of_query({"phase": "done"}) is Group.DONE
