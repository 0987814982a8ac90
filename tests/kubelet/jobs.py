"""Jobs on a real node: make them, follow them, look into their pods."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.meta.tree import ROOT
from tests.patience import PATIENCE

IMAGE = "busybox:1.36.1"
ENDED = {"Completed", "Failed", "Terminated", "Aborted"}


def container(script: str = "sleep 600", **fields: object) -> Object:
    # `trap` because a shell that is pid 1 does not end by SIGTERM otherwise.
    return {"name": "c", "image": IMAGE, "command": ["sh", "-c", f"trap 'exit 143' TERM; {script}"], **fields}


def task(name: str = "w", replicas: int = 1, *, pod: Object | None = None, **fields: object) -> Object:
    """A task of one container; `pod` adds to the spec of its pods."""
    spec = {"containers": [container()], "restartPolicy": "Never", "terminationGracePeriodSeconds": 2, **(pod or {})}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **fields}


def job(name: str, *tasks: Object, **spec: object) -> Object:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": list(tasks), **spec},
    }


@dataclass(slots=True)
class Jobs:
    cluster: Cluster
    namespace: str

    @property
    def api(self) -> Api:
        return self.cluster.api()

    def create(self, manifest: Object) -> Object:
        return self.api.create("Job", self.namespace, manifest)

    def apply_example(self, name: str) -> None:
        self.kubectl("apply", "-f", str(ROOT / "examples" / name))

    def kubectl(self, *arguments: str) -> str:
        return self.cluster.kubectl("--namespace", self.namespace, *arguments)

    def execute(self, pod: str, script: str) -> tuple[int, str]:
        """Run a shell script in a pod; return its code and everything it printed."""
        program = str(self.cluster.programs.path("kubectl"))
        config = f"--kubeconfig={self.cluster.folder / 'admin.config'}"
        command = [program, config, "-n", self.namespace, "exec", pod, "--", "sh", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.returncode, done.stdout + done.stderr

    def patch(self, name: str, spec: Object) -> None:
        self.api.patch("Job", self.namespace, name, {"spec": spec})

    def status(self, name: str) -> Object:
        found: Object = self.api.get("Job", self.namespace, name).get("status", {})
        return found

    def state(self, name: str) -> Object:
        found: Object = self.status(name).get("state", {})
        return found

    def until_phase(self, name: str, phase: str) -> Object:
        """Wait for a phase and return the status; fail at once if the job has ended in another."""

        def reached() -> Object:
            status = self.status(name)
            now = status.get("state", {}).get("phase")
            if now in ENDED and now != phase and phase in ENDED:
                raise EndedError(f"{name} is {now}, not {phase}: {status['state']}")
            return status if now == phase else {}

        try:
            return eventually(f"{name} is {phase}", reached)
        except AssertionError as error:
            pods = [(each["metadata"]["name"], each["status"].get("phase")) for each in self.pods()]
            raise AssertionError(f"{error}\n{self.status(name).get('state')}\npods: {pods}") from error

    def until_running(self, name: str, pods: int) -> Object:
        def reached() -> Object:
            status = self.status(name)
            return status if status.get("running", 0) == pods else {}

        return eventually(f"{name} has {pods} running pods", reached)

    def pods(self) -> list[Object]:
        return self.api.list("Pod", self.namespace)

    def pod(self, name: str) -> Object:
        return self.api.get("Pod", self.namespace, name)

    def logs(self, pod: str, *arguments: str) -> str:
        return self.kubectl("logs", pod, *arguments)

    def events(self, name: str) -> list[Object]:
        """Return the events of a Job."""
        found = self.api.list("Event", self.namespace)
        return [
            each for each in found if each["involvedObject"] | {"kind": "Job", "name": name} == each["involvedObject"]
        ]

    def remove_namespace(self) -> None:
        self.api.delete("Namespace", "", self.namespace)


class EndedError(Exception):
    """The job ended in another phase than the test waits for."""
