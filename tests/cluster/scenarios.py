"""Stories of jobs on a real API server, told so that they come to the same end whatever happens to the controller.

What pods do depends on which pod of which attempt they are, and what people do on what they see, never on a moment in
time: so a story that ends otherwise after a crash has found a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tests.cluster.api import Api, Object, eventually, path_of
from tests.cluster.jobs import a_job
from tests.cluster.played_kubelet import Play

NAME = "train"
RETRY = "volcano.sh/job-retry-count"
VERSION = "volcano.sh/job-version"
LONG = Play()  # until it is ended
SOON = Play(seconds=0.3)
COMPANIONS = ("Service", "ConfigMap", "Secret", "NetworkPolicy", "PersistentVolumeClaim", "Command")


@dataclass(frozen=True, slots=True)
class Stage:
    """One namespace in which a story is played."""

    api: Api
    namespace: str

    def until(self, what: str, ask: Callable[[Object], object]) -> None:
        """Wait until the job's status is so."""

        def seen() -> bool:
            found = self.api.find("Job", self.namespace, NAME)
            return bool(found is not None and ask(found.get("status", {})))

        eventually(f"{what} in {self.namespace}", seen, within=120)

    def until_phase(self, phase: str) -> None:
        self.until(f"the phase is {phase}", lambda found: found.get("state", {}).get("phase") == phase)

    def command(self, action: str) -> None:
        job = self.api.get("Job", self.namespace, NAME)
        target = {"apiVersion": job["apiVersion"], "kind": "Job", "name": NAME, "uid": job["metadata"]["uid"]}
        made = {"metadata": {"name": action.lower()}, "action": action, "target": target}
        self.api.create("Command", self.namespace, {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", **made})

    def patch(self, spec: Object) -> None:
        self.api.patch("Job", self.namespace, NAME, {"spec": spec})

    def touch(self, value: str) -> bool:
        """Change an annotation of the job, so that the controller looks at it again; False if the job is gone."""
        patch = {"metadata": {"annotations": {"example.com/touched": value}}}
        found = self.api.ask("PATCH", path_of("Job", self.namespace, NAME), patch, "application/merge-patch+json")
        return found.status != 404

    def evict(self, pod: str) -> None:
        self.api.delete("Pod", self.namespace, pod)


Plays = Callable[[str, int], Play]  # of a pod's short name and its attempt


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    job: Object
    plays: Plays
    end: str  # the last phase; empty: the job is gone
    people: Callable[[Stage], None] = lambda _stage: None

    def behaviour(self, pod: Object) -> Play:
        notes = pod["metadata"]["annotations"]
        return self.plays(pod["metadata"]["name"].removeprefix(f"{NAME}-"), int(notes[RETRY]))


def always(play: Play) -> Plays:
    return lambda _pod, _attempt: play


def with_others(count: int, code: int = 0) -> Play:
    """Ends with `code` as soon as `count` pods of the same attempt run or have run."""

    def enough(pod: Object, pods: Collection[Object]) -> bool:
        attempt = pod["metadata"]["annotations"][RETRY]
        peers = [one for one in pods if one["metadata"]["annotations"][RETRY] == attempt]
        started = [one for one in peers if one.get("status", {}).get("phase", "Pending") != "Pending"]
        return len(started) >= count

    return Play(code=code, once=enough)


def after_attempt(attempt: int) -> Play:
    """Ends well as soon as a pod of that attempt has succeeded."""

    def done(_pod: Object, pods: Collection[Object]) -> bool:
        ended = [one for one in pods if one.get("status", {}).get("phase") == "Succeeded"]
        return any(int(one["metadata"]["annotations"][RETRY]) == attempt for one in ended)

    return Play(once=done)


def first_fails(pod: str, code: int = 3) -> Plays:
    """That pod fails in the first attempt, once both pods run; the second attempt succeeds."""
    failing = with_others(2, code)
    return lambda name, attempt: failing if (name, attempt) == (pod, 0) else (LONG if attempt == 0 else SOON)


def _on(event: str, action: str) -> Object:
    return {"event": event, "action": action}


def _tasks(**replicas: int) -> list[Object]:
    task = a_job()["spec"]["tasks"][0]
    return [{**task, "name": name, "replicas": count} for name, count in replicas.items()]


def _two_tasks(policy: Object) -> Object:
    return a_job(tasks=_tasks(master=1, worker=2), policies=[policy])


def _abort_and_resume(stage: Stage) -> None:
    stage.until_phase("Running")
    stage.command("AbortJob")
    stage.until_phase("Aborted")
    stage.command("ResumeJob")
    stage.until_phase("Running")
    stage.command("CompleteJob")


def _terminate(stage: Stage) -> None:
    stage.until_phase("Running")
    stage.command("TerminateJob")


def _suspend_and_resume(stage: Stage) -> None:
    stage.until_phase("Running")
    stage.patch({"suspend": True})
    stage.until_phase("Aborted")
    stage.patch({"suspend": False})
    stage.until_phase("Running")
    stage.command("CompleteJob")


def _scale(stage: Stage) -> None:
    stage.until("two run", lambda found: found.get("running") == 2)
    stage.patch({"tasks": _tasks(worker=4)})
    stage.until("four run", lambda found: found.get("running") == 4)
    stage.patch({"tasks": _tasks(worker=1)})
    stage.until("one runs", lambda found: found.get("running") == 1 and not found.get("terminating"))
    stage.command("CompleteJob")


def _evict(stage: Stage) -> None:
    stage.until_phase("Running")
    stage.evict(f"{NAME}-worker-0")


def _delete(stage: Stage) -> None:
    stage.until_phase("Running")
    stage.api.delete("Job", stage.namespace, NAME, {"propagationPolicy": "Background"})


def _cancel_as_torchx(stage: Stage) -> None:
    stage.until_phase("Running")

    def written() -> bool:
        job = stage.api.get("Job", stage.namespace, NAME)
        job["status"]["state"]["phase"] = "Aborted"
        return stage.api.ask("PUT", path_of("Job", stage.namespace, NAME, "status"), job).status == 200

    eventually("the status is written", written)


_DEPENDENT: Sequence[Object] = [
    {**_tasks(master=1)[0], "minAvailable": 1},
    {**_tasks(worker=2)[0], "dependsOn": {"name": ["master"]}},
]
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_ALL_PLUGINS = {"svc": ["--disable-network-policy=false"], "ssh": [], "env": []}

SCENARIOS: Mapping[str, Scenario] = {
    one.name: one
    for one in (
        Scenario("completes", a_job(plugins=_ALL_PLUGINS), always(SOON), "Completed"),
        Scenario(
            "restarts",
            a_job(plugins={"svc": []}, policies=[_on("PodFailed", "RestartJob")]),
            first_fails("worker-0"),
            "Completed",
        ),
        Scenario("fails", a_job(), lambda pod, _attempt: Play(0.3, 7 if pod == "worker-1" else 0), "Failed"),
        Scenario(
            "exhausts its retries",
            a_job(maxRetry=2, policies=[_on("PodFailed", "RestartJob")]),
            lambda pod, _attempt: with_others(2, 5) if pod == "worker-0" else LONG,
            "Failed",
        ),
        Scenario(
            "is aborted and resumed",
            a_job(),
            always(LONG),
            "Completed",
            _abort_and_resume,
        ),
        Scenario("is terminated", a_job(plugins={"svc": []}), always(LONG), "Terminated", _terminate),
        Scenario(
            "is suspended and resumed",
            a_job(),
            always(LONG),
            "Completed",
            _suspend_and_resume,
        ),
        Scenario("is scaled", a_job(minAvailable=1, plugins={"svc": []}), always(LONG), "Completed", _scale),
        Scenario("has dependent tasks", a_job(tasks=_DEPENDENT), always(with_others(3)), "Completed"),
        Scenario(
            "completes with its master",
            _two_tasks(_on("TaskCompleted", "CompleteJob")),
            lambda pod, _attempt: SOON if pod == "master-0" else LONG,
            "Completed",
        ),
        Scenario(
            "is evicted and restarts",
            a_job(policies=[_on("PodEvicted", "RestartJob")]),
            lambda _pod, attempt: SOON if attempt else LONG,
            "Completed",
            _evict,
        ),
        Scenario(
            "restarts a task",
            _two_tasks(_on("PodFailed", "RestartTask")),
            lambda pod, attempt: (
                with_others(3, 3) if (pod, attempt) == ("worker-0", 0) else after_attempt(1) if attempt == 0 else SOON
            ),
            "Completed",
        ),
        Scenario("goes when its time is up", a_job(ttlSecondsAfterFinished=0), always(SOON), ""),
        Scenario("is deleted", a_job(plugins=_ALL_PLUGINS), always(LONG), "", _delete),
        Scenario("is cancelled by TorchX", a_job(), always(LONG), "Aborted", _cancel_as_torchx),
        Scenario(
            "has a claim", a_job(volumes=[{"mountPath": "/out", "volumeClaim": _CLAIM}]), always(SOON), "Completed"
        ),
    )
}


def ending(stage: Stage, created: int) -> Object:
    """What is left in the end, without what depends on the moment."""
    api, namespace = stage.api, stage.namespace
    found: Object = {"created": created}
    job = api.find("Job", namespace, NAME)
    last: Object = (job or {}).get("status", {})
    for moving in ("runningDuration", "controlledResources"):
        last.pop(moving, None)
    last.get("state", {}).pop("lastTransitionTime", None)
    # Pods that end soon may have ended before a controller has seen all of them running.
    phases = [condition["status"] for condition in last.get("conditions", [])]
    last["conditions"] = [phase for phase in phases if phase != "Running"]
    found["status"] = last
    found["pods"] = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in api.list("Pod", namespace)}
    for kind in COMPANIONS:
        names = [one["metadata"]["name"] for one in api.list(kind, namespace)]
        found[kind] = [_without_suffix(name) for name in names if name != "kube-root-ca.crt"]
    return found


def _without_suffix(name: str) -> str:
    """The names of claims depend on the uid of their job."""
    return name.partition("-pvc-")[0]


def until_over(stage: Stage, scenario: Scenario) -> None:
    """Wait for the last phase, and until nothing moves any more."""
    api, namespace = stage.api, stage.namespace
    if not scenario.end:
        eventually(f"the job of {namespace} is gone", lambda: api.find("Job", namespace, NAME) is None, within=120)
        eventually("and what it owned", lambda: _leftovers(api, namespace) == [], within=120)
        return
    stage.until_phase(scenario.end)

    def is_put_away() -> bool:
        assert _leftovers(api, namespace) == []
        return True

    eventually("all is put away", is_put_away, within=120)


def _leftovers(api: Api, namespace: str) -> list[str]:
    """Of a job that is over: what must go yet. Finished pods and claims stay with a job."""
    job = api.find("Job", namespace, NAME)
    kinds: tuple[str, ...] = COMPANIONS if job is None else ("Command",)
    if job is not None and job["status"]["state"]["phase"] in ("Completed", "Failed", "Terminated"):
        kinds = ("Service", "ConfigMap", "Secret", "NetworkPolicy", "Command")
    left = [
        f"{kind} {one['metadata']['name']}"
        for kind in kinds
        for one in api.list(kind, namespace)
        if one["metadata"]["name"] != "kube-root-ca.crt"
    ]
    alive = [pod for pod in api.list("Pod", namespace) if pod["status"]["phase"] not in ("Succeeded", "Failed")]
    pods = alive if job is not None else api.list("Pod", namespace)
    return left + [pod["metadata"]["name"] for pod in pods]
