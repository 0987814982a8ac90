"""Small Jobs for tests that look at one thing."""

from __future__ import annotations

from tests.cluster.api import Api, Object, eventually


def a_job(name: str = "train", replicas: int = 2, **spec: object) -> Object:
    container = {"name": "main", "image": "busybox", "command": ["sleep", "60"]}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": [{"name": "worker", "replicas": replicas, "template": template}], **spec},
    }


def status(api: Api, namespace: str, name: str = "train") -> Object:
    found: Object = api.get("Job", namespace, name).get("status", {})
    return found


def state(api: Api, namespace: str, name: str = "train") -> Object:
    found: Object = status(api, namespace, name).get("state", {})
    return found


def until_phase(api: Api, namespace: str, phase: str, name: str = "train") -> Object:
    """Wait for a phase and return the status."""

    def reached() -> Object:
        found = status(api, namespace, name)
        return found if found.get("state", {}).get("phase") == phase else {}

    return eventually(f"{name} is {phase}", reached)


def send_command(api: Api, namespace: str, action: str, *, uid: str = "", **metadata: object) -> None:
    """Create a Command for the job `train`, or for another uid."""
    uid = uid or api.get("Job", namespace, "train")["metadata"]["uid"]
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": uid}
    command = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "action": action, "target": target}
    api.create("Command", namespace, {**command, "metadata": metadata or {"generateName": "train-"}})


def reasons(api: Api, namespace: str, name: str = "train") -> list[str]:
    """Return the reasons of the events of a job."""
    return [event["reason"] for event in api.list("Event", namespace) if event["involvedObject"]["name"] == name]
