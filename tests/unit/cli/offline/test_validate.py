from __future__ import annotations

import io
import json
import sys

import pytest

from tests.unit.cli.running import JOB, Terminal, joined

CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {a: b}\n"
CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
BAD = JOB.replace("replicas: 2", "replicas: -2")


def test_a_valid_file(terminal: Terminal) -> None:
    assert terminal.run("validate", terminal.write(JOB)) == (0, "", "job.yaml: small: good (2 pods)\n")


def test_singular(terminal: Terminal) -> None:
    file = terminal.write(JOB.replace("replicas: 2", "replicas: 1"))
    assert terminal.run("validate", file).err == "job.yaml: small: good (1 pod)\n"


def test_findings_go_to_stdout_and_their_number_to_stderr(terminal: Terminal) -> None:
    assert terminal.run("validate", terminal.write(BAD)) == (
        2,
        "job.yaml:8: spec.tasks[0].replicas: -2: must be 0 or more\n",
        "1 error\n",
    )


def test_a_hint_is_on_the_next_line(terminal: Terminal) -> None:
    file = terminal.write(JOB.replace("image:", "imag:").replace("replicas", "replica"))
    result = terminal.run("validate", file)
    assert result.out == (
        "job.yaml:8: spec.tasks[0].replica: unknown field\n"
        "  hint: did you mean replicas?\n"
        "job.yaml:14: spec.tasks[0].template.spec.containers[0].imag: unknown field\n"
        "  hint: did you mean image?\n"
    )
    assert result.err == "2 errors\n"


def test_warnings_alone_exit_with_0(terminal: Terminal) -> None:
    text = JOB.replace("spec:\n  tasks", "spec:\n  policies: [{event: PodPending, action: AbortJob}]\n  tasks", 1)
    assert terminal.run("validate", terminal.write(text)) == (
        0,
        "job.yaml:6: warning: spec.policies[0]: never acts: PodPending needs a timeout\n  hint: add timeout: 5m\n",
        "job.yaml: small: good (2 pods)\n1 warning\n",
    )


def test_json(terminal: Terminal) -> None:
    text = BAD.replace("kind: Job", "kind: Job\nx: 1").replace("spec:\n  tasks", "spec:\n  queue: Q\n  tasks", 1)
    result = terminal.run("validate", "--json", terminal.write(text))
    assert [json.loads(line) for line in result.out.splitlines()] == [
        {
            "severity": "error",
            "file": "job.yaml",
            "line": 3,
            "column": 1,
            "path": "x",
            "value": None,
            "message": "unknown field",
            "hint": "",
        },
        {
            "severity": "error",
            "file": "job.yaml",
            "line": 7,
            "column": 3,
            "path": "spec.queue",
            "value": "Q",
            "message": "must be lower-case letters, digits, '-' or '.', "
            "and every part must begin and end with a letter or digit",
            "hint": "",
        },
        {
            "severity": "error",
            "file": "job.yaml",
            "line": 10,
            "column": 5,
            "path": "spec.tasks[0].replicas",
            "value": -2,
            "message": "must be 0 or more",
            "hint": "",
        },
    ]
    assert (result.code, result.err) == (2, "3 errors\n")


def test_a_syntax_error_has_a_column(terminal: Terminal) -> None:
    result = terminal.run("validate", terminal.write("a: 1\nb: - 2\n"))
    assert result.code == 2
    assert result.out.startswith("job.yaml:2:4: a list item where none is allowed\n")


def test_several_files(terminal: Terminal) -> None:
    good, bad = terminal.write(JOB, "good.yaml"), terminal.write(BAD, "bad.yaml")
    result = terminal.run("validate", bad, good, "missing.yaml")
    assert result == (
        2,
        (
            "bad.yaml:8: spec.tasks[0].replicas: -2: must be 0 or more\n"
            "missing.yaml: no such file\n  hint: check the spelling\n"
        ),
        "good.yaml: small: good (2 pods)\n2 errors\n",
    )


def test_the_same_job_in_two_files_is_valid(terminal: Terminal) -> None:
    assert terminal.run("validate", terminal.write(JOB, "a.yaml"), terminal.write(JOB, "b.yaml")).code == 0


def test_empty_documents_are_skipped(terminal: Terminal) -> None:
    other = JOB.replace("name: small", "name: other")
    file = terminal.write(joined(["", JOB, "# nothing\n", other, "\n"]))
    assert terminal.run("validate", file) == (
        0,
        "",
        "job.yaml: small: good (2 pods)\njob.yaml: other: good (2 pods)\n",
    )


def test_extra_objects_are_accepted(terminal: Terminal) -> None:
    file = terminal.write(joined([CONFIG, JOB, SECRET, CLAIM]))
    assert terminal.run("validate", file) == (0, "", "job.yaml: small: good (2 pods)\n")


def test_extra_objects_are_checked(terminal: Terminal) -> None:
    file = terminal.write(joined([JOB, CONFIG.replace("a: b", "a: 1"), CLAIM.replace("1Gi", "much")]))
    assert terminal.run("validate", file) == (
        2,
        (
            'job.yaml:19: data.a: 1: must be a string, found a number\n  hint: quote it: "1"\n'
            "job.yaml:24: spec.resources.requests.storage: much: must be a quantity such as 500m, 2, 1.5 or 4Gi\n"
        ),
        "2 errors\n",
    )


def test_other_kinds_get_a_warning(terminal: Terminal) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
    assert terminal.run("validate", terminal.write(joined([JOB, pod]))) == (
        0,
        "job.yaml:17: warning: kind: Pod of v1 is neither a Job of Volcano nor used by one; it is not checked\n",
        "job.yaml: small: good (2 pods)\n1 warning\n",
    )


@pytest.mark.parametrize(
    ("head", "line"),
    [
        pytest.param(
            "kind: Job",
            "job.yaml:1: apiVersion: is missing\n  hint: a Job has apiVersion: batch.volcano.sh/v1alpha1\n",
            id="no apiVersion",
        ),
        pytest.param(
            "apiVersion: batch.volcano.sh/v1alpha1",
            "job.yaml:1: kind: is missing\n  hint: a Job has kind: Job\n",
            id="no kind",
        ),
        pytest.param(
            "apiVersion: batch.volcano.sh/v1alpha1\nkind: job",
            "job.yaml:2: kind: job: must be Job\n  hint: did you mean Job?\n",
            id="mistyped kind",
        ),
        pytest.param(
            "apiVersion: batch.volcano.sh/v1aplha1\nkind: Job",
            "job.yaml:1: apiVersion: batch.volcano.sh/v1aplha1: must be batch.volcano.sh/v1alpha1\n"
            "  hint: did you mean batch.volcano.sh/v1alpha1?\n",
            id="mistyped apiVersion",
        ),
        pytest.param(
            "apiVersion: v1\nkind: [Job]", "job.yaml:2: kind: must be a string, found a list\n", id="kind as a list"
        ),
        pytest.param(
            "apiVersion: 1\nkind: Job", "job.yaml:1: apiVersion: must be a string, found a number\n", id="number"
        ),
        pytest.param(
            "- a", "job.yaml:1:1: a document must be a mapping with apiVersion and kind, found a list\n", id="list"
        ),
        pytest.param(
            "hello", "job.yaml:1:1: a document must be a mapping with apiVersion and kind, found a string\n", id="text"
        ),
    ],
)
def test_documents_that_are_not_jobs(head: str, line: str, terminal: Terminal) -> None:
    assert terminal.run("validate", terminal.write(head)) == (2, line, "1 error\n")


def test_a_job_of_kubernetes_gets_a_hint(terminal: Terminal) -> None:
    result = terminal.run("validate", terminal.write("apiVersion: batch/v1\nkind: Job\n"))
    assert result == (
        2,
        (
            "job.yaml:2: warning: kind: "
            "Job of batch/v1 is neither a Job of Volcano nor used by one; it is not checked\n"
            "  hint: a Job of Volcano has apiVersion: batch.volcano.sh/v1alpha1\n"
        ),
        "job.yaml: the file contains no Job\n1 warning\n",
    )


def test_a_list_gets_a_hint(terminal: Terminal) -> None:
    result = terminal.run("validate", terminal.write("apiVersion: v1\nkind: List\nitems: []\n"))
    hint = "  hint: write each item as a document of its own, with a line --- between them"
    assert result.out.splitlines()[1] == hint


@pytest.mark.parametrize("text", ["", "\n\n", "---\n---\n", "# a comment\n"], ids=repr)
def test_an_empty_file_is_an_error(text: str, terminal: Terminal) -> None:
    result = terminal.run("validate", terminal.write(text))
    hint = "  hint: a Job starts with apiVersion: batch.volcano.sh/v1alpha1\n"
    assert result == (2, f"job.yaml:1:1: the file is empty\n{hint}", "1 error\n")


def test_files_without_any_job_are_bad_input(terminal: Terminal) -> None:
    config = terminal.write(CONFIG)
    assert terminal.run("validate", config) == (2, "", "job.yaml: the file contains no Job\n")
    good = terminal.write(JOB, "good.yaml")
    said = "job.yaml: the file contains no Job\ngood.yaml: small: good (2 pods)\n"
    assert terminal.run("validate", config, good) == (0, "", said)


def test_duplicate_names(terminal: Terminal) -> None:
    elsewhere = JOB.replace("name: small", "name: small\n  namespace: lab")
    here = JOB.replace("name: small", "name: small\n  namespace: default")
    result = terminal.run("validate", terminal.write(joined([JOB, elsewhere, here])))
    assert result == (
        2,
        "job.yaml:35: metadata.name: small: another job in this file has this name\n",
        "1 error\n",
    )


@pytest.mark.parametrize("metadata", ["generateName: small-", "labels: {}"])
def test_jobs_without_a_name_are_no_duplicates(metadata: str, terminal: Terminal) -> None:
    text = JOB.replace("name: small", metadata)
    result = terminal.run("validate", terminal.write(joined([text, text])))
    assert "another job" not in result.out


def test_fields_that_only_pumice_knows(terminal: Terminal) -> None:
    file = terminal.write(JOB.replace("spec:\n  tasks", "spec:\n  suspend: true\n  tasks", 1))
    assert terminal.run("validate", file).out == ""
    assert terminal.run("validate", "--volcano", file) == (
        0,
        "job.yaml:6: warning: spec.suspend: only Pumice knows this field; Volcano drops it in silence\n",
        "job.yaml: small: good (2 pods)\n1 warning\n",
    )


def test_standard_input(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.encode())))
    assert terminal.run("validate", "-").out == "-:8: spec.tasks[0].replicas: -2: must be 0 or more\n"


MANY = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: My_Job
spec:
  minAvailable: 20
  maxRetry: "3"
  quue: fast
  plugins:
    pytorch:
    - --master=worker
    - --prot=5
    scv: []
  policies:
  - event: PodFaild
    action: RestartJob
  - exitCode: 0
    action: RestartJb
    timeout: 5x
  volumes:
  - mountPath: /data
  tasks:
  - name: worker
    replicas: 2
    minAvailable: 3
    dependsOn: {name: [wroker], iteration: some}
    template:
      spec:
        restartPolicy: Sometimes
        containers:
        - name: main
          imagePulPolicy: Always
          image: busybox
          env:
          - name: A
            value: 1
          ports:
          - containerPort: 70000
          volumeMounts:
          - {name: nothing, mountPath: /x}
          resources:
            limits: {memory: 1GB}
  - name: worker
    replicas: -2
    template: {spec: {containers: [{name: main, image: busybox}], restartPolicy: Never}}
"""


def test_many_mistakes_are_reported_once_each_in_file_order(terminal: Terminal) -> None:
    result = terminal.run("validate", "--json", terminal.write(MANY))
    at = "spec.tasks[0].template.spec"
    container = f"{at}.containers[0]"
    assert [(printed["line"], printed["path"]) for printed in map(json.loads, result.out.splitlines())] == [
        (4, "metadata.name"),
        (7, "spec.maxRetry"),
        (8, "spec.quue"),
        (12, "spec.plugins.pytorch[1]"),
        (13, "spec.plugins.scv"),
        (15, "spec.policies[0].event"),
        (17, "spec.policies[1].exitCode"),
        (18, "spec.policies[1].action"),
        (19, "spec.policies[1].timeout"),
        (21, "spec.volumes[0]"),
        (25, "spec.tasks[0].minAvailable"),
        (26, "spec.tasks[0].dependsOn.name[0]"),
        (26, "spec.tasks[0].dependsOn.iteration"),
        (29, f"{at}.restartPolicy"),
        (32, f"{container}.imagePulPolicy"),
        (36, f"{container}.env[0].value"),
        (38, f"{container}.ports[0].containerPort"),
        (40, f"{container}.volumeMounts[0].name"),
        (42, f"{container}.resources.limits.memory"),
        (43, "spec.tasks[1].name"),
        (44, "spec.tasks[1].replicas"),
    ]
    assert (result.code, result.err) == (2, "21 errors\n")
