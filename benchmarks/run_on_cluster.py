"""`pumice run --on` on a real kubelet, beside kubectl: how long until the first line, and what sending code costs.

As root only, in the namespaces of `make kubelet`. In turn, so that a busy machine is busy for all of them: the Job by
`kubectl apply` and `kubectl logs -f` (asked again until the container has started), the same Job by `pumice run`, and
by `pumice run --code` with 2,000 files and 2 MiB. The program prints the time, so that what the node takes can be told
from what the client takes to show the line. The goals: 0.5 s more than by hand; 2 s for the code; one upload for twice
the same code.
"""

from __future__ import annotations

import datetime as dt
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from scripts import kubelet
from scripts.user_cache import cache_directory
from tests.kubelet.jobs import Jobs
from tests.kubelet.typist import Typist

ROUNDS = 4
FILES, BYTES = 2_000, 940  # of each file, which does not compress
JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  tasks:
  - name: w
    replicas: 1
    template:
      spec:
        restartPolicy: Never
        terminationGracePeriodSeconds: 1
        containers:
        - {{name: main, image: "busybox:1.36.1", command: [sh, -c, "date +%s.%N; exec sleep 600"]}}
"""


@contextmanager
def _started(argv: list[str], typist: Typist) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        argv,
        cwd=typist.folder,
        env=typist.environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _first_line(argv: list[str], typist: Typist) -> str:
    with _started(argv, typist) as process:
        return next(iter(process.stdout or ()), "")


def by_kubectl(typist: Typist, kubectl: str, name: str) -> tuple[float, float]:
    """Return the seconds until the first line is shown, and those after it was printed."""
    begin = time.time()
    subprocess.run(
        [kubectl, "apply", "-f", f"{name}.yaml"],
        cwd=typist.folder,
        env=typist.environ,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    while not (line := _first_line([kubectl, "logs", "-f", f"{name}-w-0"], typist)):
        continue
    return _times(begin, line)


def by_pumice(typist: Typist, name: str, *flags: str) -> tuple[float, float]:
    begin = time.time()
    line = _first_line(typist.argv("run", f"{name}.yaml", "--no-prefix", *flags), typist)
    return _times(begin, line)


def _times(begin: float, line: str) -> tuple[float, float]:
    now = time.time()
    return now - begin, now - float(line)


def test_figures(jobs: Jobs, tmp_path: Path) -> None:
    typist = Typist.there(tmp_path, jobs.cluster, jobs.namespace)
    kubectl = str(jobs.cluster.programs.path("kubectl"))
    code, lots = tmp_path / "code", Random(1)  # noqa: S311 - no secret
    code.mkdir()
    for number in range(FILES):
        (code / f"file-{number:04}").write_bytes(lots.randbytes(BYTES))
    figures: dict[str, list[tuple[float, float]]] = {"kubectl": [], "pumice run": [], "pumice run --code": []}
    unpacked: list[tuple[float, float]] = []
    for turn in range(ROUNDS + 1):
        for way, measured in figures.items():
            name = f"{way.split()[-1].strip('-')}-{turn}"
            (tmp_path / f"{name}.yaml").write_text(JOB.format(name=name))
            if way == "kubectl":
                times = by_kubectl(typist, kubectl, name)
            else:
                times = by_pumice(typist, name, *(("--code", "code") if "--code" in way else ()))
            if turn and "--code" in way:
                unpacked.append(_seconds_until_unpacked(jobs.pod(f"{name}-w-0")["status"]))
            jobs.api.delete("Job", jobs.namespace, name)
            # Each is the only one on the machine; the first of each warms caches.
            _wait_until_gone(jobs)
            if turn:
                measured.append(times)
    for way, measured in figures.items():
        total, shown = (statistics.median(column) for column in zip(*measured, strict=True))
        least = min(total for total, _ in measured)
        print(f"\n{way:<18} first line after {total:.2f} s (at least {least:.2f}), ", end="")
        print(f"shown {shown:.2f} s after it was printed", end="")
    medians = [statistics.median(total for total, _ in measured) for measured in figures.values()]
    print(f"\npumice run - kubectl: {medians[1] - medians[0]:+.2f} s; --code adds {medians[2] - medians[1]:+.2f} s")
    for what, seconds in zip(("pod", "init container"), zip(*unpacked, strict=True), strict=True):
        text = f"{statistics.median(seconds):.0f} s (at least {min(seconds):.0f}, counted in whole seconds)"
        print(f"the code is unpacked after the start of the {what}: {text}")
    _count_uploads(jobs, typist)


def _seconds_until_unpacked(status: dict[str, Any]) -> tuple[float, float]:
    """Return the seconds from the pod's start, and from that of the init container; a kubelet counts whole ones."""
    ended = status["initContainerStatuses"][0]["state"]["terminated"]
    begin, started, finished = (
        dt.datetime.fromisoformat(each).timestamp()
        for each in (status["startTime"], ended["startedAt"], ended["finishedAt"])
    )
    return finished - begin, finished - started


def _wait_until_gone(jobs: Jobs) -> None:
    while jobs.pods():
        time.sleep(0.1)


def _count_uploads(jobs: Jobs, typist: Typist) -> None:
    """Submit the same code twice at once, so that no Job that has it is gone in between."""
    sent = []
    for name in ("once", "twice"):
        (typist.folder / f"{name}.yaml").write_text(JOB.format(name=name))
        begin = time.time()
        done = typist.run("submit", f"{name}.yaml", "--code", "code")
        if done.returncode:
            raise SystemExit(done.stderr)
        found = {each["metadata"]["uid"] for each in jobs.api.list("Secret", jobs.namespace)}
        print(f"submit {name} --code: {time.time() - begin:.2f} s, {len(found)} Secrets")
        sent.append(found)
    print(f"uploads of the same code: {1 if sent[0] == sent[1] else 2}")


def main() -> int:
    cache = cache_directory("kubelet", os.environ)
    cache.mkdir(parents=True, exist_ok=True)
    if missing := kubelet.missing_for_a_kubelet(cache):
        print("left out; it lacks: " + "; ".join(missing))
        return 0
    return kubelet.main(["-q", "-s", "-p", "tests.kubelet.conftest", "-c", "pyproject.toml", __file__])


if __name__ == "__main__":
    sys.exit(main())
