from __future__ import annotations

from pumice.diagnosis.cluster.reading import Unread, known, requests_by_node
from pumice.model.snapshot import PodPhase
from tests.builders import a_task
from tests.unit.diagnosis.cluster.readings import GPU, ago, container, event, job, needs, pod, reading

UNREAD = Unread("you have no right to list them")


def test_pods_of_this_attempt_are_in_the_order_of_the_tasks() -> None:
    made = job(a_task("b", 2), a_task("a", 1))
    pods = (
        pod("x-0"),
        pod("a-0"),
        pod("b-1"),
        pod("b-0", "Failed"),
        pod("b-2", meta={"deletionTimestamp": ago(0)}),
        pod("b-3", meta={"annotations": {"volcano.sh/job-version": "7"}}),
    )
    situation = reading(made, pods=pods)
    assert [each.short_name for each in situation.attempt] == ["b-0", "b-1", "a-0", "x-0"]
    assert [each.short_name for each in situation.live_pods] == ["b-1", "a-0", "x-0"]
    assert not situation.lacks_pods


def test_events_are_those_of_the_object_the_newest_first() -> None:
    about = {"kind": "Pod", "name": "p", "uid": "1"}
    events = (
        event("Pod", "p", "A", "old", 60),
        event("Pod", "p", "A", "new", 30, involvedObject=about),
        event("Pod", "p", "A", "of another uid", involvedObject={**about, "uid": "2"}),
        event("Pod", "p", "B", "of another reason"),
        event("Pod", "q", "A", "of another name"),
        event("Job", "p", "A", "of another kind"),
    )
    seen = reading(events=events).events_of("Pod", [("p", "1")], "A")
    assert [each.message for each in seen] == ["new", "old"]
    assert reading(events=UNREAD).events_of("Pod", [("p", "1")], "A") == []


def test_pods_are_counted_from_the_status_where_they_are_unread() -> None:
    made = job(status={"running": 3, "succeeded": 1})
    situation = reading(made, pods=UNREAD)
    assert situation.count(PodPhase.RUNNING, PodPhase.SUCCEEDED) == 4
    assert situation.count(PodPhase.PENDING) == 0
    assert situation.lacks_pods


def test_a_pod_whose_container_waits_to_start_again_does_not_run() -> None:
    crashed = pod("worker-0", "Running", containerStatuses=container("CrashLoopBackOff"))
    pods = (crashed, pod("worker-1", "Running", containerStatuses=container(ready=True)))
    assert reading(pods=pods).running == 1


def test_what_is_unread_is_named() -> None:
    assert reading(nodes=UNREAD, claims=UNREAD).unread == {"PersistentVolumeClaims": UNREAD, "nodes": UNREAD}
    assert known(UNREAD) == ()


def test_commands_lead_to_the_cluster() -> None:
    assert reading().command("pumice logs train") == "pumice logs train --on prod -n lab"
    assert reading(options="").command("pumice logs train") == "pumice logs train"


def test_requests_are_summed_up_by_node() -> None:
    usage = requests_by_node([("n1", needs(gpu="2")["spec"]), ("n2", {}), ("n1", needs(gpu="3")["spec"])])
    assert {node: (str(used["pods"]), str(used.get(GPU))) for node, used in usage.items()} == {
        "n1": ("2", "5"),
        "n2": ("1", "None"),
    }
