"""What a simulation tells: the steps of a scenario, one by one, and how stories end that do not end well."""

from __future__ import annotations

import pytest

from pumice.engines.memory.event_log import texts
from tests.unit.engines.memory.playing import a_task, admitted, played, story

RESTART = [{"events": ["PodFailed", "PodEvicted", "Unknown"], "action": "RestartJob"}]
MADE = ["t+0.0s Pending 2 pods made: worker 2", "t+0.0s Running 2/2 running"]
WELL = [*MADE, "t+10.0s Running worker-0, worker-1 succeeded", "t+10.0s Completed 2 succeeded"]


def test_without_steps_all_goes_well() -> None:
    assert story("steps: []") == WELL


def test_a_behaviour_of_the_first_moment_holds_for_the_first_pods() -> None:
    assert story("steps: [{pods: '*', start: 5s, run: 7s}, {at: 0s, pods: worker-1, exit: 3, reason: Error}]") == [
        "t+0.0s Pending 2 pods made: worker 2",
        "t+5.0s Running 2/2 running",
        "t+12.0s Running worker-0 succeeded",
        "t+12.0s Running worker-1 failed (3, Error)",
        "t+12.0s Failed PodFailed: worker-1 failed first: exit code 3",
    ]


def test_a_behaviour_counts_from_now_for_pods_that_run_even_if_it_is_the_same_again() -> None:
    lines = story("steps: [{pods: '*', run: 10s}, {at: 6s, pods: worker, run: 10s}]")
    assert lines[2:] == ["t+16.0s Running worker-0, worker-1 succeeded", "t+16.0s Completed 2 succeeded"]


def test_a_behaviour_leaves_others_alone() -> None:
    lines = story("steps: [{at: 5s, pods: worker-1, run: 20s}]")
    assert lines[2:4] == ["t+10.0s Running worker-0 succeeded", "t+25.0s Running worker-1 succeeded"]


def test_a_behaviour_does_not_revive_a_terminating_pod() -> None:
    text = "steps: [{pods: '*', stop: 9s}, {at: 2s, pod: worker-1, evict: true}, {at: 5s, pods: worker-1, run: 20s}]"
    assert story(text, admitted(policies=RESTART))[2:4] == [
        "t+2.0s Running worker-1 is deleted by someone else",
        "t+10.0s Running worker-0 succeeded",
    ]


def test_what_was_said_last_counts_field_by_field() -> None:
    lines = story("steps: [{pods: worker-0, exit: 1}, {pods: worker, run: 20s}, {pods: '*', run: 30s}]")
    assert lines[2:4] == ["t+30.0s Running worker-0 failed (1)", "t+30.0s Running worker-1 succeeded"]


def test_a_seed_draws_how_long_pods_run() -> None:
    text = "{seed: %d, steps: [{pods: '*', run: 50s..70s}]}"
    assert story(text % 1) == story(text % 1)
    assert story(text % 1) != story(text % 2)


def test_a_kubelet_evicts_a_pod_that_uses_too_much() -> None:
    policies = [{"event": "PodFailed", "action": "AbortJob"}, {"event": "PodEvicted", "action": "RestartJob"}]
    lines = story("steps: [{at: 3s, pod: worker-1, exit: 137, reason: Evicted}]", admitted(policies=policies))
    assert lines[2:4] == [
        "t+3.0s Running worker-1 failed (137, Evicted) -> policy spec.policies[1] PodEvicted: RestartJob",
        "t+3.0s Restarting 2 pods end; retry 1, budget 1 of 3 spent",
    ]


def test_pods_that_do_the_same_at_one_moment_share_a_line() -> None:
    job = admitted(a_task("worker", 8), a_task("ps", 1), policies=RESTART)
    lines = story("steps: [{pods: worker, run: 5s, exit: 1}]", job)
    assert lines[2:4] == [
        "t+5.0s Running worker-0 failed (1) -> policy spec.policies[0] PodFailed: RestartJob",
        "t+5.0s Running 7 of worker failed (1)",
    ]


def test_the_lines_are_aligned() -> None:
    simulation, _ = played("steps: [{pods: '*', run: 100s}]")
    assert list(texts(simulation.story.lines)) == [
        "t+0.0s    Pending     2 pods made: worker 2",
        "t+0.0s    Running     2/2 running",
        "t+100.0s  Running     worker-0, worker-1 succeeded",
        "t+100.0s  Completed   2 succeeded",
    ]


def test_an_exit_triggers_its_policy_and_the_job_restarts() -> None:
    lines = story(
        "steps: [{pods: '*', run: 60s}, {at: 30s, pod: worker-1, exit: 137, reason: OOMKilled}]",
        admitted(policies=RESTART),
    )
    assert lines == [
        *MADE,
        "t+30.0s Running worker-1 failed (137, OOMKilled) -> policy spec.policies[0] PodFailed: RestartJob",
        "t+30.0s Restarting 2 pods end; retry 1, budget 1 of 3 spent",
        "t+31.0s Pending version 1: 2 pods made: worker 2",
        "t+31.0s Running 2/2 running",
        "t+91.0s Running worker-0, worker-1 succeeded",
        "t+91.0s Completed 2 succeeded",
    ]


def test_a_pod_that_a_kubelet_evicted_failed_for_that_reason() -> None:
    lines = story("steps: [{at: 3s, pod: worker-1, exit: 137, reason: Evicted}]")
    assert lines[-1].startswith("t+10.0s Failed Evicted: worker-1 failed first")


def test_an_init_container_may_fail_before_the_pod_runs() -> None:
    job = admitted(a_task("master", 1), a_task(), plugins={"pytorch": ["--wait-master-enabled=true"]})
    lines = story(
        "steps: [{pods: worker, start: 5m}, {at: 9s, pod: worker-1, exit: 1, container: wait-for-master}]", job
    )
    assert lines[1] == "t+9.0s Pending worker-1 failed (1, in wait-for-master)"


def test_an_eviction_is_one_when_the_pod_is_gone() -> None:
    lines = story("steps: [{at: 3s, pod: worker-1, evict: true}]", admitted(policies=RESTART))
    assert lines[2:6] == [
        "t+3.0s Running worker-1 is deleted by someone else",
        "t+4.0s Running worker-1 is gone -> policy spec.policies[0] PodEvicted: RestartJob",
        "t+4.0s Restarting 1 pod ends; retry 1, budget 0 of 3 spent",
        "t+5.0s Pending version 1: 2 pods made: worker 2",
    ]


def test_a_pod_may_fail_on_its_way_out() -> None:
    lines = story("steps: [{at: 3s, pod: worker-1, evict: {exit: 143}}]", admitted(policies=RESTART))
    assert lines[3] == "t+4.0s Running worker-1 failed (143) -> policy spec.policies[0] PodEvicted: RestartJob"


def test_a_finished_pod_that_is_removed_has_still_succeeded() -> None:
    lines = story("steps: [{at: 3s, pod: worker-1, exit: 0}, {at: 5s, pod: worker-1, evict: true}]")
    assert lines[3:] == [
        "t+5.0s Running worker-1 is deleted by someone else",
        "t+10.0s Running worker-0 succeeded",
        "t+10.0s Completed 2 succeeded",
    ]


def test_pods_stop_slowly_but_not_beyond_their_grace() -> None:
    lines = story(
        "steps: [{pods: '*', run: 60s, stop: 5m}, {at: 10s, pod: worker-1, exit: 1}]", admitted(policies=RESTART)
    )
    assert lines[4] == "t+40.0s Pending version 1: 2 pods made: worker 2"


def test_a_hanging_pod_may_be_let_go() -> None:
    lines = story("steps: [{at: 0s, pod: worker-1, pending: true}, {at: 50s, pod: worker-1, pending: false}]")
    assert lines == [
        "t+0.0s Pending 2 pods made: worker 2",
        "t+10.0s Pending worker-0 succeeded",
        "t+50.0s Running 1/2 running, 1 succeeded",
        "t+60.0s Running worker-1 succeeded",
        "t+60.0s Completed 2 succeeded",
    ]


def test_a_pod_that_is_about_to_start_may_hang_and_one_that_was_to_hang_may_not() -> None:
    lines = story(
        "steps: [{pods: '*', start: 5s}, {at: 2s, pod: worker-1, pending: true},"
        "{at: 20s, pod: worker-1, pending: false}, {at: 26s, pod: worker-0, pending: true},"
        "{at: 27s, pod: worker-0, pending: false}]"
    )
    assert lines[-2:] == ["t+35.0s Running worker-1 succeeded", "t+35.0s Completed 2 succeeded"]


def test_restarts_of_containers_fail_a_task() -> None:
    job, path = (
        admitted(a_task(policies=[{"event": "TaskFailed", "action": "TerminateJob"}])),
        "spec.tasks[0].policies[0]",
    )
    lines = story("steps: [{at: 3s, pod: worker-1, restarts: 1}, {at: 4s, pod: worker-1, restarts: 2}]", job)
    assert lines[2:] == [
        "t+3.0s Running worker-1 restarted a container",
        f"t+4.0s Running worker-1 restarted a container 2 times -> policy {path} TaskFailed: TerminateJob",
        "t+4.0s Terminating 2 pods end",
        "t+5.0s Terminated no pods are left",
    ]


def test_a_task_waits_until_the_other_is_ready() -> None:
    job = admitted(a_task("database", 1), a_task("load", 1, dependsOn={"name": ["database"]}))
    lines = story(
        "steps: [{pods: database, start: 1s}, {pods: load, start: 1s}, {at: 5s, pod: database-0, ready: false}]", job
    )
    assert lines[:4] == [
        "t+0.0s Pending 1 pod made: database 1",
        "t+1.0s Pending 1 pod made: load 1",
        "t+2.0s Running 2/2 running",
        "t+5.0s Running database-0 is not ready",
    ]


def test_what_happens_while_the_controller_is_away_meets_its_policy_later() -> None:
    text = "steps: [{pods: '*', run: 60s}, {at: 2s, controller: down, for: 5s}, {at: 4s, controller: down, for: 1s},"
    lines = story(text + "{at: 3s, pod: worker-1, exit: 1}]", admitted(policies=RESTART))
    assert lines[2:8] == [
        "t+2.0s Running controller down for 5s",
        "t+3.0s Running worker-1 failed (1)",
        "t+4.0s Running controller down for 1s",
        "t+7.0s Running controller is back",
        "t+7.0s Running worker-1 has failed -> policy spec.policies[0] PodFailed: RestartJob",
        "t+7.0s Restarting 2 pods end; retry 1, budget 1 of 3 spent",
    ]


def test_the_controller_may_come_back_by_a_step_or_never() -> None:
    assert story("steps: [{at: 0s, controller: down}, {at: 9s, controller: up}, {at: 9.5s, controller: up}]")[:3] == [
        "t+0.0s Pending controller down",
        "t+9.0s Pending controller is back",
        "t+9.0s Pending 2 pods made: worker 2",
    ]
    assert story("steps: [{at: 5s, controller: down}]")[-1] == (
        "t+10.0s Running stuck: the controller is down, and no step starts it again"
    )


def test_the_last_word_about_an_absence_without_end_counts() -> None:
    lines = story("steps: [{at: 2s, controller: down}, {at: 5s, controller: down, for: 1s}]")
    assert lines[2:5] == [
        "t+2.0s Running controller down",
        "t+5.0s Running controller down for 1s",
        "t+6.0s Running controller is back",
    ]


def test_a_job_that_rests_needs_no_controller_until_something_happens() -> None:
    assert story("steps: [{at: 20s, controller: down}]") == [*WELL, "t+20.0s Completed controller down"]
    lines = story("steps: [{at: 5s, command: AbortJob}, {at: 20s, controller: down}, {at: 30s, command: ResumeJob}]")
    assert lines[-1] == "t+30.0s Aborted stuck: the controller is down, and no step starts it again"


def test_a_deleted_job_needs_no_controller() -> None:
    lines = story("steps: [{at: 80s, controller: down}]", admitted(ttlSecondsAfterFinished=60))
    assert lines[-1] == "t+80.0s gone controller down"


def test_commands_abort_and_resume() -> None:
    lines = story("steps: [{at: 3s, command: AbortJob}, {at: 9s, command: ResumeJob}]")
    assert lines[2:] == [
        "t+3.0s Running Command AbortJob",
        "t+3.0s Aborting 2 pods end",
        "t+4.0s Aborted no pods are left",
        "t+9.0s Aborted Command ResumeJob",
        "t+9.0s Restarting no pod has to end; resumed, which costs no retry",
        "t+9.0s Pending version 2: 2 pods made: worker 2",
        "t+9.0s Running 2/2 running",
        "t+19.0s Running worker-0, worker-1 succeeded",
        "t+19.0s Completed 2 succeeded",
    ]


def test_scaling_keeps_what_was_said_about_the_least() -> None:
    job = admitted(a_task(replicas=4, minAvailable=3), policies=[{"event": "JobUpdated", "action": "RestartJob"}])
    simulation, _ = played(
        "steps: [{pods: '*', run: 60s}, {at: 3s, scale: {worker: 2}}, {at: 30s, scale: {worker: 5}}]", job
    )
    spec = simulation.world.jobs[simulation.key].spec
    assert (spec.min_available, spec.tasks[0].min_available, spec.tasks[0].replicas) == (2, 2, 5)
    assert [line.message + line.acted for line in simulation.story.lines if line.policy] == [
        "scaled: worker 2 -> policy spec.policies[0] JobUpdated: RestartJob",
        "scaled: worker 5 -> policy spec.policies[0] JobUpdated: RestartJob",
    ]


def test_suspending_and_scaling_down_to_nothing() -> None:
    assert story("steps: [{at: 3s, suspend: true}, {at: 5s, suspend: false}]")[2:5] == [
        "t+3.0s Running spec.suspend: true",
        "t+3.0s Aborting 2 pods end",
        "t+4.0s Aborted no pods are left",
    ]
    lines = story("steps: [{at: 3s, scale: {worker: 0}}]")
    assert lines[2:] == [
        "t+3.0s Running scaled: worker 0",
        "t+3.0s Running 2 pods end: worker 2",
        "t+4.0s Running stuck: the job has no pods",
    ]


def test_the_group_may_wait_and_get_lost() -> None:
    lines = story(
        "steps: [{at: 0s, group: Pending}, {at: 60s, group: Inqueue}, {at: 65s, group: Unknown}]",
        admitted(policies=RESTART),
    )
    assert lines[:7] == [
        "t+0.0s Pending the next PodGroup begins as Pending",
        "t+0.0s Pending no pods yet",
        "t+60.0s Pending PodGroup is Inqueue",
        "t+60.0s Pending 2 pods made: worker 2",
        "t+60.0s Running 2/2 running",
        "t+65.0s Running PodGroup is Unknown -> policy spec.policies[0] Unknown: RestartJob",
        "t+65.0s Restarting 2 pods end; retry 1, budget 1 of 3 spent",
    ]


def test_a_policy_with_a_timeout_acts_later() -> None:
    policies = [
        {"event": "PodPending", "action": "AbortJob", "timeout": "5m"},
        {"event": "Unknown", "action": "AbortJob", "timeout": "1s"},
    ]
    lines = story("steps: [{at: 0s, pod: worker-1, pending: true}]", admitted(policies=policies))
    assert lines[2] == "t+300.0s Pending worker-1 is still pending -> policy spec.policies[0] PodPending: AbortJob"
    lines = story("steps: [{at: 2s, group: Unknown}]", admitted(policies=policies))
    assert lines[3] == "t+3.0s Running PodGroup is Unknown -> policy spec.policies[1] Unknown: AbortJob"


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        ("{at: 20s, pod: worker-1, exit: 1}", "worker-1 has succeeded already: nothing to end"),
        ("{at: 20s, pod: worker-1, restarts: 1}", "worker-1 has succeeded already: nothing to restart"),
        ("{at: 20s, pod: worker-1, ready: true}", "worker-1 has succeeded already: nothing to change"),
        ("{at: 20s, pod: worker-1, pending: false}", "worker-1 does not hang: nothing to release"),
        ("{at: 20s, group: Unknown}", "there is no PodGroup: nothing to change"),
    ],
)
def test_a_step_that_finds_nothing_to_do_says_so(step: str, lines: str) -> None:
    assert story(f"steps: [{step}]") == [*WELL, f"t+20.0s Completed {lines}"]


def test_a_step_about_a_pod_that_is_not_there_or_leaves_says_so() -> None:
    lines = story(
        "steps: [{pods: '*', start: 9s, stop: 5s}, {at: 3s, pod: worker-1, ready: true}, {at: 10s, command: AbortJob},"
        "{at: 12s, pod: worker-1, evict: true}, {at: 20s, pod: worker-1, evict: true}]"
    )
    assert [line for line in lines if "nothing" in line] == [
        "t+3.0s Pending worker-1 does not run yet: nothing to change",
        "t+12.0s Aborting worker-1 is on its way out: nothing to evict",
        "t+20.0s Aborted worker-1 is not there: nothing to evict",
    ]


def test_a_job_that_is_removed_after_its_time_is_gone_for_steps_too() -> None:
    job = admitted(ttlSecondsAfterFinished=60)
    lines = story("steps: [{at: 80s, command: AbortJob}, {at: 81s, suspend: true}]", job)
    assert lines[-3:] == [
        "t+70.0s gone the job is deleted, with all that it owned",
        "t+80.0s gone the job is gone: nothing to change",
        "t+81.0s gone the job is gone: nothing to change",
    ]


def test_a_job_may_be_removed_while_pods_still_run_or_start() -> None:
    job = admitted(a_task(replicas=3), ttlSecondsAfterFinished=0, minSuccess=1, minAvailable=1)
    lines = story("steps: [{pods: worker-1, run: 60s}, {pods: worker-2, start: 60s}, {at: 2m, group: Inqueue}]", job)
    assert lines[2:] == [
        "t+10.0s Running worker-0 succeeded",
        "t+10.0s Completed 1 succeeded",
        "t+10.0s Completed 2 pods end: worker 2",
        "t+10.0s gone the job is deleted, with all that it owned",
        "t+120.0s gone the job is gone: nothing to change",
    ]


@pytest.mark.parametrize("evict", ["true", "{exit: 143}"])
def test_a_job_may_be_removed_while_an_evicted_pod_terminates(evict: str) -> None:
    job = admitted(ttlSecondsAfterFinished=0, minSuccess=1, minAvailable=1)
    lines = story(
        f"steps: [{{pods: '*', stop: 20s}}, {{at: 5s, pod: worker-1, evict: {evict}}}, {{at: 60s, suspend: true}}]", job
    )
    assert lines[2:] == [
        "t+5.0s Running worker-1 is deleted by someone else",
        "t+10.0s Running worker-0 succeeded",
        "t+10.0s Completed 1 succeeded",
        "t+10.0s gone the job is deleted, with all that it owned",
        "t+60.0s gone the job is gone: nothing to change",
    ]


def test_a_change_that_a_webhook_would_refuse_is_reported() -> None:
    lines = story("steps: [{at: 5s, scale: {worker: 1}}]", admitted(minSuccess=2))
    assert lines[3].startswith("t+5.0s Running spec.minSuccess: ")


def test_a_pod_that_found_no_room_goes_at_once() -> None:
    job = admitted(minAvailable=1)
    lines = story("{capacity: {pods: 1}, steps: [{at: 3s, pod: worker-0, exit: 1}, {at: 3s, command: AbortJob}]}", job)
    assert lines[-3:] == ["t+3.0s Running Command AbortJob", "t+3.0s Aborting 1 pod ends", "t+3.0s Aborted 1 failed"]


def test_an_aborted_job_is_never_removed() -> None:
    lines = story("steps: [{at: 3s, command: AbortJob}]", admitted(ttlSecondsAfterFinished=60))
    assert lines[-1] == "t+4.0s Aborted no pods are left"


GANG = "and 4 must start together (minAvailable)"


@pytest.mark.parametrize(
    ("text", "tasks", "last"),
    [
        pytest.param(
            "{capacity: {pods: 2}, steps: []}",
            [a_task(replicas=4)],
            f"worker-0, worker-1, worker-2 and 1 more find no room: there is room for 2 pods, {GANG}",
            id="gang",
        ),
        pytest.param(
            "{capacity: {pods: 0}, steps: []}",
            [a_task(replicas=1)],
            "worker-0 finds no room: there is room for 0 pods, and 1 must start together (minAvailable)",
            id="no room at all",
        ),
        pytest.param(
            "steps: [{at: 0s, pod: worker-1, pending: true}]",
            [a_task()],
            "worker-1 hangs pending, as the scenario says",
            id="hanging",
        ),
        pytest.param(
            "steps: [{at: 0s, pod: worker-1, pending: true}, {at: 0s, pod: worker-0, pending: true}]",
            [a_task()],
            "worker-0, worker-1 hang pending, as the scenario says",
            id="two hanging",
        ),
        pytest.param(
            "steps: [{at: 0s, group: Pending}]",
            [a_task()],
            "the PodGroup is Pending, so no pods are created",
            id="group",
        ),
        pytest.param(
            "steps: [{at: 0s, pods: a, exit: 1}]",
            [a_task("a", 1), a_task("b", 1, dependsOn={"name": ["a"], "condition": "Completed"})],
            "b waits for a to complete (dependsOn)",
            id="dependsOn completed",
        ),
        pytest.param(
            "steps: [{at: 0s, pod: a-0, pending: true}]",
            [a_task("a", 1), a_task("b", 1, dependsOn={"name": ["a"]})],
            "a-0 hangs pending, as the scenario says; b waits for a to run (dependsOn)",
            id="dependsOn running",
        ),
    ],
)
def test_a_story_that_stops_says_what_it_waits_for(text: str, tasks: list[dict[str, object]], last: str) -> None:
    assert story(text, admitted(*tasks))[-1].split(" ", 2)[2] == f"stuck: {last}"


def test_more_pods_than_fit_wait_for_room() -> None:
    lines = story("{capacity: {pods: 2}, steps: []}", admitted(a_task(replicas=4), minAvailable=2))
    assert lines == [
        "t+0.0s Pending 4 pods made: worker 4",
        "t+0.0s Running 2/4 running",
        "t+10.0s Running worker-0, worker-1 succeeded",
        "t+20.0s Running worker-2, worker-3 succeeded",
        "t+20.0s Completed 4 succeeded",
    ]


def test_an_endless_job_is_cut_off() -> None:
    job = admitted(policies=RESTART, maxRetry=2**31 - 1)
    lines = story("steps: [{pods: '*', run: 0s, stop: 0s, exit: 1}]", job, work=20_000)
    assert lines[-1].startswith("t+0.0s ")
    assert lines[-1].endswith(" retries: it does not end")


def test_a_story_does_not_last_longer_than_a_year() -> None:
    assert story("steps: [{pods: '*', run: 8760h}, {at: 1h, pods: '*', run: 8760h}]")[-1] == (
        "t+3600.0s Running cut off: the next event is more than a year away"
    )
    lines = story(
        "steps: [{at: 1s, command: AbortJob}]",
        admitted(
            a_task(
                template={
                    "spec": {
                        "terminationGracePeriodSeconds": 2**62,
                        "restartPolicy": "Never",
                        "containers": [{"name": "a", "image": "a"}],
                    }
                }
            )
        ),
    )
    assert lines[-1] == "t+2.0s Aborted no pods are left"


@pytest.mark.parametrize(
    ("expect", "met", "looked_at", "found"),
    [
        pytest.param("{expect: {phase: Completed}, by: 10s}", 10.0, 10.0, "Completed", id="just in time"),
        pytest.param("{expect: {phase: Completed}, by: 9.9s}", None, 0.0, "Running", id="too late"),
        pytest.param("{expect: {phase: Running}, by: 5s}", 0.0, 0.0, "Running", id="at once"),
        pytest.param("{at: 5s, expect: {phase: Running}}", 5.0, 5.0, "Running", id="at a moment"),
        pytest.param("{at: 50s, expect: {phase: Running}}", None, 50.0, "Completed", id="at a later moment"),
        pytest.param("{at: 5s, expect: {phase: Pending}, by: 9s}", None, 5.0, "Running", id="from then on"),
        pytest.param("{expect: {phase: Completed}}", 10.0, 10.0, "Completed", id="at the end"),
        pytest.param("{expect: {phase: Failed}}", None, 10.0, "Completed", id="not at the end"),
        pytest.param("{expect: {phase: gone}}", None, 10.0, "Completed", id="not gone"),
    ],
)
def test_an_expectation_is_met_or_reports_the_actual_state(
    expect: str, met: float | None, looked_at: float, found: str
) -> None:
    _, [outcome] = played(f"steps: [{expect}]")
    assert (outcome.met_at, outcome.looked_at, outcome.found["phase"]) == (met, looked_at, found)


def test_pods_are_asked_for_one_by_one_by_task_and_all_together() -> None:
    text = "steps: [{at: 2s, pod: worker-1, exit: 1}, {at: 3s, expect: {pods: {worker-0: Running, worker-1: Failed, "
    _, [outcome] = played(
        text + "worker: Failed, '*': Running, ps-0: Running, ps: Running}}}]", admitted(a_task(), a_task("ps", 1))
    )
    assert outcome.found == {
        "pods.worker-0": "Running",
        "pods.worker-1": "Failed",
        "pods.worker": "1 Failed, 1 Running",
        "pods.*": "1 Failed, 2 Running",
        "pods.ps-0": "Running",
        "pods.ps": "Running",
    }


def test_the_end_of_a_job_that_is_removed_is_how_it_ended() -> None:
    job = admitted(ttlSecondsAfterFinished=60)
    _, outcomes = played("steps: [{expect: {phase: Completed, succeeded: 2}}, {expect: {phase: gone}}]", job)
    assert [outcome.met_at for outcome in outcomes] == [70.0, 70.0]
