"""How fast pods are rendered, beside one JSON decode and encode of the same output in the same run.

A job with svc, env, pytorch and ssh is rendered to JSON at three sizes. The peer is what any tool would have to do at
least with the result: read it and write it once, with the standard library. Printed are pods per second, the ratio to
the peer, and the growth of the time per pod from the middle to the large job, which stays near 1 if rendering is
linear. Reading and checking the job beforehand is printed apart, in milliseconds a job.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

import msgspec

from pumice.admission.admit import admit
from pumice.client.job_files import render
from pumice.runtime.offline_context import offline_context
from scripts.measuring import best_of

SIZES = (10, 1_000, 10_000)
ROUNDS = 5


def job_of(pods: int) -> dict[str, object]:
    def task(name: str, replicas: int) -> dict[str, object]:
        container = {"name": name, "image": "train:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
        template = {"spec": {"containers": [container], "restartPolicy": "OnFailure"}}
        return {"name": name, "replicas": replicas, "template": template}

    plugins = {"env": [], "svc": [], "ssh": [], "pytorch": ["--master=master", "--worker=worker"]}
    spec = {"plugins": plugins, "tasks": [task("master", 1), task("worker", pods - 1)]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "bench"}, "spec": spec}


@dataclass(frozen=True, slots=True)
class Measured:
    pods: int
    render: float  # seconds
    peer: float
    admit: float
    size: int  # bytes of output

    def row(self) -> str:
        pods, per_pod = self.pods, 1e6 / self.pods
        return (
            f"{pods:>7} {pods / self.render:>9.0f} {self.render * per_pod:>7.1f} {self.size / pods:>10.0f}"
            f" {self.peer * per_pod:>15.1f} us {self.render / self.peer:>6.2f} {1000 * self.admit:>9.1f}"
        )


def measure(pods: int) -> Measured:
    context = offline_context()
    document = job_of(pods)
    admitted = admit(document, context)

    def rendered() -> bytes:
        # Each call makes a new Job, so that nothing is kept from the round before.
        manifests = render(admitted, "default", "1c2f3d4e-0000-4000-8000-000000000000")
        return b"\n".join(map(msgspec.json.encode, manifests))

    output = rendered()
    # The same bytes as one document, which is the kinder form for the peer.
    whole = b"[" + output.replace(b"\n", b",") + b"]"
    rounds = ROUNDS if pods > SIZES[0] else ROUNDS * 20
    return Measured(
        pods,
        best_of(rounds, rendered),
        best_of(rounds, lambda: json.dumps(json.loads(whole))),
        best_of(rounds, lambda: admit(document, context)),
        len(output),
    )


def main() -> int:
    print("   pods    pods/s  us/pod  bytes/pod json decode+encode  ratio  admit/ms")
    results = [measure(pods) for pods in SIZES]
    for result in results:
        print(result.row())
    middle, large = (result.render / result.pods for result in results[1:])
    print(f"time per pod at {SIZES[2]} pods: {large / middle:.2f} times that at {SIZES[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
