"""Scenarios of jobs on a real API server that have the same final state whatever happens to the controller.

What a pod does depends on its name and attempt, and what users do depends on the status that they see, never on time.
So a different final state after a crash shows a defect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tests.cluster.api import Api, Object, eventually, path_of
from tests.cluster.fake_kubelet import PodScript
from tests.cluster.jobs import a_job, send_command

NAME = "train"
RETRY = "volcano.sh/job-retry-count"
VERSION = "volcano.sh/job-version"
UNTIL_STOPPED = PodScript()
BRIEF = PodScript(seconds=0.3)
OWNED_KINDS = ("Service", "ConfigMap", "Secret", "NetworkPolicy", "PersistentVolumeClaim", "Command")


@dataclass(frozen=True, slots=True)
class JobHandle:
    """The job of a scenario, in a namespace of its own."""

    api: Api
    namespace: str

    def until(self, what: str, ask: Callable[[Object], object]) -> None:
        """Wait until the status of the job satisfies a condition."""

        def seen() -> bool:
            found = self.api.find("Job", self.namespace, NAME)
            return bool(found is not None and ask(found.get("status", {})))

        eventually(f"{what} in {self.namespace}", seen)

    def until_phase(self, phase: str) -> None:
        self.until(f"the phase is {phase}", lambda found: found.get("state", {}).get("phase") == phase)

    def command(self, action: str) -> None:
        # A fixed name, because the status names the Command.
        send_command(self.api, self.namespace, action, name=action.lower())

    def patch(self, spec: Object) -> None:
        self.api.patch("Job", self.namespace, NAME, {"spec": spec})

    def touch(self, value: str) -> bool:
        """Change an annotation, so that the controller reconciles the job again; False if the job is gone."""
        patch = {"metadata": {"annotations": {"example.com/touched": value}}}
        found = self.api.ask("PATCH", path_of("Job", self.namespace, NAME), patch, "application/merge-patch+json")
        return found.status != 404

    def evict(self, pod: str) -> None:
        self.api.delete("Pod", self.namespace, pod)


Scripts = Callable[[str, int], PodScript]  # by the short name of a pod and its attempt


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    job: Object
    scripts: Scripts
    last_phase: str  # empty: the job is deleted
    user_actions: Callable[[JobHandle], None] = lambda _job: None

    def behaviour(self, pod: Object) -> PodScript:
        notes = pod["metadata"]["annotations"]
        return self.scripts(pod["metadata"]["name"].removeprefix(f"{NAME}-"), int(notes[RETRY]))


def always(play: PodScript) -> Scripts:
    return lambda _pod, _attempt: play


def with_others(count: int, code: int = 0) -> PodScript:
    """End with `code` as soon as `count` pods of the same attempt have started."""

    def enough(pod: Object, pods: Collection[Object]) -> bool:
        attempt = pod["metadata"]["annotations"][RETRY]
        peers = [one for one in pods if one["metadata"]["annotations"][RETRY] == attempt]
        started = [one for one in peers if one.get("status", {}).get("phase", "Pending") != "Pending"]
        return len(started) >= count

    return PodScript(code=code, ends_when=enough)


def after_attempt(attempt: int) -> PodScript:
    """Succeed as soon as a pod of that attempt has succeeded."""

    def done(_pod: Object, pods: Collection[Object]) -> bool:
        ended = [one for one in pods if one.get("status", {}).get("phase") == "Succeeded"]
        return any(int(one["metadata"]["annotations"][RETRY]) == attempt for one in ended)

    return PodScript(ends_when=done)


def first_fails(pod: str, code: int = 3) -> Scripts:
    """One pod fails in the first attempt, once both pods run; the second attempt succeeds."""
    failing = with_others(2, code)
    return lambda name, attempt: failing if (name, attempt) == (pod, 0) else (UNTIL_STOPPED if attempt == 0 else BRIEF)


def _on(event: str, action: str) -> Object:
    return {"event": event, "action": action}


def _tasks(**replicas: int) -> list[Object]:
    task = a_job()["spec"]["tasks"][0]
    return [{**task, "name": name, "replicas": count} for name, count in replicas.items()]


def _two_tasks(policy: Object) -> Object:
    return a_job(tasks=_tasks(master=1, worker=2), policies=[policy])


def _abort_and_resume(handle: JobHandle) -> None:
    handle.until_phase("Running")
    handle.command("AbortJob")
    handle.until_phase("Aborted")
    handle.command("ResumeJob")
    handle.until_phase("Running")
    handle.command("CompleteJob")


def _terminate(handle: JobHandle) -> None:
    handle.until_phase("Running")
    handle.command("TerminateJob")


def _suspend_and_resume(handle: JobHandle) -> None:
    handle.until_phase("Running")
    handle.patch({"suspend": True})
    handle.until_phase("Aborted")
    handle.patch({"suspend": False})
    handle.until_phase("Running")
    handle.command("CompleteJob")


def _scale(handle: JobHandle) -> None:
    handle.until("two run", lambda found: found.get("running") == 2)
    handle.patch({"tasks": _tasks(worker=4)})
    handle.until("four run", lambda found: found.get("running") == 4)
    handle.patch({"tasks": _tasks(worker=1)})
    handle.until("one runs", lambda found: found.get("running") == 1 and not found.get("terminating"))
    handle.command("CompleteJob")


def _evict(handle: JobHandle) -> None:
    handle.until_phase("Running")
    handle.evict(f"{NAME}-worker-0")


def _delete(handle: JobHandle) -> None:
    handle.until_phase("Running")
    handle.api.delete("Job", handle.namespace, NAME, {"propagationPolicy": "Background"})


def _cancel_as_torchx(handle: JobHandle) -> None:
    handle.until_phase("Running")

    def written() -> bool:
        job = handle.api.get("Job", handle.namespace, NAME)
        job["status"]["state"]["phase"] = "Aborted"
        return handle.api.ask("PUT", path_of("Job", handle.namespace, NAME, "status"), job).status == 200

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
        Scenario("completes", a_job(plugins=_ALL_PLUGINS), always(BRIEF), "Completed"),
        Scenario(
            "restarts",
            a_job(plugins={"svc": []}, policies=[_on("PodFailed", "RestartJob")]),
            first_fails("worker-0"),
            "Completed",
        ),
        Scenario("fails", a_job(), lambda pod, _attempt: PodScript(0.3, 7 if pod == "worker-1" else 0), "Failed"),
        Scenario(
            "exhausts its retries",
            a_job(maxRetry=2, policies=[_on("PodFailed", "RestartJob")]),
            lambda pod, _attempt: with_others(2, 5) if pod == "worker-0" else UNTIL_STOPPED,
            "Failed",
        ),
        Scenario(
            "is aborted and resumed",
            a_job(),
            always(UNTIL_STOPPED),
            "Completed",
            _abort_and_resume,
        ),
        Scenario("is terminated", a_job(plugins={"svc": []}), always(UNTIL_STOPPED), "Terminated", _terminate),
        Scenario(
            "is suspended and resumed",
            a_job(),
            always(UNTIL_STOPPED),
            "Completed",
            _suspend_and_resume,
        ),
        Scenario("is scaled", a_job(minAvailable=1, plugins={"svc": []}), always(UNTIL_STOPPED), "Completed", _scale),
        Scenario("has dependent tasks", a_job(tasks=_DEPENDENT), always(with_others(3)), "Completed"),
        Scenario(
            "completes with its master",
            _two_tasks(_on("TaskCompleted", "CompleteJob")),
            lambda pod, _attempt: BRIEF if pod == "master-0" else UNTIL_STOPPED,
            "Completed",
        ),
        Scenario(
            "is evicted and restarts",
            a_job(policies=[_on("PodEvicted", "RestartJob")]),
            lambda _pod, attempt: BRIEF if attempt else UNTIL_STOPPED,
            "Completed",
            _evict,
        ),
        Scenario(
            "restarts a task",
            _two_tasks(_on("PodFailed", "RestartTask")),
            lambda pod, attempt: (
                with_others(3, 3) if (pod, attempt) == ("worker-0", 0) else after_attempt(1) if attempt == 0 else BRIEF
            ),
            "Completed",
        ),
        Scenario("goes when its time is up", a_job(ttlSecondsAfterFinished=0), always(BRIEF), ""),
        Scenario("is deleted", a_job(plugins=_ALL_PLUGINS), always(UNTIL_STOPPED), "", _delete),
        Scenario("is cancelled by TorchX", a_job(), always(UNTIL_STOPPED), "Aborted", _cancel_as_torchx),
        Scenario(
            "has a claim", a_job(volumes=[{"mountPath": "/out", "volumeClaim": _CLAIM}]), always(BRIEF), "Completed"
        ),
    )
}


def final_state(handle: JobHandle, created: int) -> Object:
    """Return the final status and objects of a scenario, without times."""
    api, namespace = handle.api, handle.namespace
    found: Object = {"created": created}
    job = api.find("Job", namespace, NAME)
    last: Object = (job or {}).get("status", {})
    for volatile in ("runningDuration", "controlledResources"):
        last.pop(volatile, None)
    last.get("state", {}).pop("lastTransitionTime", None)
    # Brief pods may end before the controller has seen all of them running.
    phases = [condition["status"] for condition in last.get("conditions", [])]
    last["conditions"] = [phase for phase in phases if phase != "Running"]
    found["status"] = last
    found["pods"] = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in api.list("Pod", namespace)}
    for kind in OWNED_KINDS:
        names = [one["metadata"]["name"] for one in api.list(kind, namespace)]
        found[kind] = [_without_suffix(name) for name in names if name != "kube-root-ca.crt"]
    return found


def _without_suffix(name: str) -> str:
    """Remove the suffix of claims, which depends on the uid of the job."""
    return name.partition("-pvc-")[0]


def wait_until_over(handle: JobHandle, scenario: Scenario) -> None:
    """Wait for the last phase, and until the controller has cleaned up."""
    api, namespace = handle.api, handle.namespace
    if not scenario.last_phase:
        eventually(f"the job of {namespace} is gone", lambda: api.find("Job", namespace, NAME) is None)
        eventually("its objects are gone", lambda: _leftovers(api, namespace) == [])
        return
    handle.until_phase(scenario.last_phase)

    def is_clean() -> bool:
        assert _leftovers(api, namespace) == []
        return True

    eventually("everything is cleaned up", is_clean)


def _leftovers(api: Api, namespace: str) -> list[str]:
    """Return what must still be deleted after a job is over. Finished pods and claims stay."""
    job = api.find("Job", namespace, NAME)
    kinds: tuple[str, ...] = OWNED_KINDS if job is None else ("Command",)
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
    # The controller may see the end of the pods later than the API server.
    counts = [name for name in ("pending", "running", "terminating") if job is not None and job["status"].get(name)]
    return left + [pod["metadata"]["name"] for pod in pods] + counts
