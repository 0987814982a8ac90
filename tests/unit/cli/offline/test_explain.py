from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from pumice.cli.offline import explain
from pumice.model.job import Manifest
from tests.unit.cli.running import EXAMPLES, JOB, PYTORCH, Terminal, joined
from tests.unit.cli.screens import OnTerminal

EVERYTHING = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: full
spec:
  priorityClassName: high
  plugins:
    env: []
  volumes:
  - {mountPath: /data, volumeClaimName: there}
  tasks:
  - replicas: 1
    template:
      metadata:
        labels:
          mine: "yes"
      spec:
        hostNetwork: true
        hostname: fixed
        restartPolicy: Never
        initContainers:
        - name: first
          image: busybox
        volumes:
        - name: scratch
          emptyDir: {}
        containers:
        - name: main
          image: busybox
          command: [sh, -c, "echo a\\necho b"]
          env:
          - name: VC_TASK_INDEX
            value: mine
          - name: FROM_KEY
            valueFrom: {secretKeyRef: {name: s, key: k}}
          ports:
          - containerPort: 80
            name: http
          volumeMounts:
          - name: scratch
            mountPath: /scratch
"""

GROUP = ("full-00000000-0000-0000-0000-000000000000", "the PodGroup that the pod starts with")


def traces(terminal: Terminal, *words: str) -> list[Manifest]:
    result = terminal.run("explain", *words, "--json")
    assert result.code == 0
    return [json.loads(line) for line in result.out.splitlines()]


@pytest.mark.parametrize(
    ("gang", "expected"),
    [
        pytest.param("volcano", {}, id="volcano"),
        pytest.param(
            "native",
            {"schedulerName": ("default-scheduler", "--gang native, in place of volcano"), "schedulingGroup": GROUP},
            id="native",
        ),
        pytest.param(
            "coscheduling",
            {
                "scheduling.x-k8s.io/pod-group": GROUP,
                "schedulerName": ("scheduler-plugins-scheduler", "--gang coscheduling, in place of volcano"),
            },
            id="coscheduling",
        ),
        pytest.param("none", {"schedulerName": ("default-scheduler", "--gang none, in place of volcano")}, id="none"),
    ],
)
def test_what_the_gang_adds(gang: str, expected: dict[str, tuple[str, str]], terminal: Terminal) -> None:
    found = traces(terminal, terminal.write(EVERYTHING), f"--gang={gang}")
    added = {one["name"] or one["kind"]: (one["value"], one["why"]) for one in found if one["by"] == "gang"}
    assert added == expected


def test_everything_in_a_pod(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "_WIDTH", 200)
    result = terminal.run("explain", terminal.write(EVERYTHING), "default0-0")
    volume = next(trace["name"] for trace in traces(terminal, "job.yaml") if trace["name"].startswith("full-"))
    note = "VC_TASK_INDEX is yours; the env plugin leaves it alone"
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines == [
        "pod full-default0-0",
        "",
        "env of container main",
        f"VC_TASK_INDEX mine you (line 32) {note}",
        "FROM_KEY s/k you (line 34)",
        "VK_TASK_INDEX 0 env the same, by its older name",
        "env of container first",
        "VK_TASK_INDEX 0 env the same, by its older name",
        "VC_TASK_INDEX 0 env index within task default0",
        "command of container main",
        "command sh -c echo a you (line 30)",
        "ports of container main",
        "80 http you (line 37)",
        "mounts of container main",
        "/scratch scratch you (line 40)",
        f"/data {volume} job spec.volumes",
        "mounts of container first",
        f"/data {volume} job spec.volumes",
        "init containers",
        "first busybox you (line 22)",
        "volumes",
        "scratch emptyDir you (line 25)",
        f"{volume} persistentVolumeClaim job spec.volumes",
        "names",
        "hostname fixed you (line 19)",
        "scheduling",
        "schedulerName volcano job spec.schedulerName",
        "priorityClassName high job spec.priorityClassName",
        "labels",
        "mine yes you (line 16)",
        "volcano.sh/job-name full job the Service and dashboards find the pod by it",
        "volcano.sh/job-namespace default job the Service finds the pod by it",
        "volcano.sh/queue-name default job spec.queue",
        "volcano.sh/task-spec default0 job the task",
        "volcano.sh/task-index 0 job index within the task",
        "annotations",
        "volcano.sh/job-name full job the job",
        "volcano.sh/job-retry-count 0 job restarts so far",
        "volcano.sh/job-version 0 job distinguishes pods of an earlier run",
        "scheduling.k8s.io/group-name full-00000000-0000-0000-0000-000000000000 job the gang that the pod starts with",
        "volcano.sh/queue-name default job spec.queue",
        "volcano.sh/task-spec default0 job the task",
        "volcano.sh/template-uid full-default0 job the template",
        "volcano.sh/task-index 0 job index within the task",
        "defaults",
        "queue default default",
        "maxRetry 3 default runs before the job fails",
        "schedulerName volcano default",
        "minAvailable 1 default all that the tasks need",
        "tasks[0].name default0 default position of the task",
        "tasks[0].minAvailable 1 default its replicas",
        "tasks[0].maxRetry 3 default container restarts before TaskFailed",
        "dnsPolicy ClusterFirstWithHostNet default for a pod on the host's network",
    ]


def test_a_long_value_widens_only_its_own_section_of_a_narrow_terminal(tmp_path: Path) -> None:
    command = "import sys; from pumice.cli.program import main; sys.exit(main())"
    environ = {"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), "TERM": "dumb"}
    argv = [sys.executable, "-c", command, "explain", str(PYTORCH), "worker-1"]
    seen = {}
    for columns in (100, 200):
        terminal = OnTerminal(argv, tmp_path, environ, columns=columns)
        assert terminal.read_to_end() == 0
        [seen[columns]] = [line for line in terminal.screen.lines if line.startswith("  MASTER_PORT ")]
    assert seen[100] == "  MASTER_PORT      23456                             pytorch  --port"
    assert len(seen[200]) > len(seen[100])


def test_the_title_has_rank_and_host_name(terminal: Terminal) -> None:
    result = terminal.run("explain", PYTORCH, "worker-1")
    title = "pod pytorch-job-worker-1   rank 2 of 3   pytorch-job-worker-1.pytorch-job"
    assert result.out.splitlines()[0] == title


def test_one_pod_of_each_task_by_default(terminal: Terminal) -> None:
    titles = [line for line in terminal.run("explain", PYTORCH).out.splitlines() if line.startswith("pod ")]
    assert [title.split()[1] for title in titles] == ["pytorch-job-master-0", "pytorch-job-worker-0"]


def test_an_empty_line_separates_pods(terminal: Terminal) -> None:
    assert "\n\npod pytorch-job-worker-0 " in terminal.run("explain", PYTORCH).out


@pytest.mark.parametrize("name", ["worker-1", "pytorch-job-worker-1"])
def test_short_and_full_names(name: str, terminal: Terminal) -> None:
    assert {trace["pod"] for trace in traces(terminal, PYTORCH, name)} == {"pytorch-job-worker-1"}


def test_a_pod_name_selects_from_all_jobs(terminal: Terminal) -> None:
    file = terminal.write(joined([JOB, JOB.replace("name: small", "name: other")]))
    assert {trace["pod"] for trace in traces(terminal, file, "worker-1")} == {"small-worker-1", "other-worker-1"}


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        pytest.param("worker-2", "there are master-0, worker-0 to worker-1", id="index too high"),
        pytest.param("wroker-1", "did you mean worker-1? there are master-0, worker-0 to worker-1", id="mistyped"),
        pytest.param("worker", "there are master-0, worker-0 to worker-1", id="no index"),
        pytest.param("worker-x", "there are master-0, worker-0 to worker-1", id="index of letters"),
        pytest.param("nonsense-0", "there are master-0, worker-0 to worker-1", id="unknown"),
    ],
)
def test_no_such_pod(name: str, hint: str, terminal: Terminal) -> None:
    result = terminal.run("explain", PYTORCH, name)
    assert result == (2, "", f"{PYTORCH}: {name}: no such pod\n  hint: {hint}\n")


def test_the_hint_is_short_for_many_tasks(terminal: Terminal) -> None:
    head, _, one = JOB.partition("  - name: ")
    tasks = "".join(f"  - name: t{n}\n{one.partition(chr(10))[2]}" for n in range(50))
    result = terminal.run("explain", terminal.write(head + tasks), "nobody-0")
    assert result.code == 2
    assert result.err.splitlines()[-1].endswith(", t10-0 to t10-1, ...")


def test_a_job_without_pods(terminal: Terminal) -> None:
    file = terminal.write(JOB.replace("replicas: 2", "replicas: 0"))
    assert terminal.run("explain", file) == (2, "", "job.yaml: the job has no pods\n")
    assert terminal.run("explain", file, "worker-0") == (
        2,
        "",
        "job.yaml: worker-0: no such pod\n  hint: there are none\n",
    )


def test_json(terminal: Terminal) -> None:
    found = traces(terminal, terminal.write(EVERYTHING))
    assert all(list(trace) == ["pod", "kind", "container", "name", "value", "by", "why", "line"] for trace in found)
    by_name = {(trace["kind"], trace["container"], trace["name"]): trace for trace in found}
    assert by_name["env", "main", "VC_TASK_INDEX"] == {
        "pod": "full-default0-0",
        "kind": "env",
        "container": "main",
        "name": "VC_TASK_INDEX",
        "value": "mine",
        "by": "you",
        "why": "VC_TASK_INDEX is yours; the env plugin leaves it alone",
        "line": 32,
    }
    assert by_name["default", "", "queue"]["by"] == "default"
    assert by_name["default", "", "queue"]["line"] is None
    assert by_name["command", "main", ""]["value"] == "sh -c echo a\necho b"


def test_required_plugins_are_defaults(terminal: Terminal) -> None:
    added = [trace for trace in traces(terminal, PYTORCH, "master-0") if trace["name"] == "plugins.svc"]
    assert [(trace["by"], trace["why"]) for trace in added] == [("default", "needed by pytorch")]


def test_min_available_of_partitions(terminal: Terminal) -> None:
    policy = "partitionPolicy: {totalPartitions: 2, partitionSize: 1, minPartitions: 1}"
    file = terminal.write(JOB.replace("replicas: 2", f"replicas: 2\n    {policy}"))
    (trace,) = [trace for trace in traces(terminal, file) if trace["name"] == "tasks[0].minAvailable"]
    assert (trace["value"], trace["why"]) == ("1", "minPartitions times partitionSize")


def test_where_there_is_no_terminal_lines_have_80_columns(terminal: Terminal) -> None:
    lines = terminal.run("explain", terminal.write(EVERYTHING)).out.splitlines()
    assert max(map(len, lines)) <= 80


def test_long_values_are_shortened_in_text_only(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "_WIDTH", 200)
    env = "image: busybox\n          env: [{name: LONG, value: " + "x" * 100 + "}]"
    file = terminal.write(JOB.replace("image: busybox", env))
    assert "x" * 57 + "...  you (line 15)" in terminal.run("explain", file).out
    (trace,) = [trace for trace in traces(terminal, file) if trace["name"] == "LONG"]
    assert trace["value"] == "x" * 100


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_every_example_can_be_explained(file: object, terminal: Terminal) -> None:
    assert terminal.run("explain", str(file)).code == 0
