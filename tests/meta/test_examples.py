"""Every example is good, renders, always to the same bytes, and fits the schema that editors use."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from pumice.client.job_files import JobFile, load, render
from pumice.model.json_schema import job_schema
from pumice.plugins.registry import BUILTINS
from pumice.runtime.kubernetes_types import kubernetes_types
from pumice.runtime.offline_context import offline_context
from scripts import examples
from tests.meta.tree import ROOT, shown

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))

# These jobs are Volcano's own documentation, byte for byte; they must not be improved.
AS_DOCUMENTED = {
    "lm-mpi-job.yaml": "b6fb4cfdbdbe7c1a22f9ec5a9db40ce008550126f25ce052035255da39afe8ef",
    "pytorch-job-basic.yaml": "ab548a295d03955fe546bb8b1eeb7888d32e834dec856879b35a7194cc293ef3",
    "pytorch-job-zh.yaml": "fd3b7af81a42b178286636523b3a4652c90c3e183f0159043f49cd00aa708db5",
    "pytorch-job.yaml": "5085cf603281587dc4de5f6e56a5f58c7a26e0f7a5bab1cf8691c53e27d4d390",
    "tensorflow-dist-mnist.yaml": "2aac9ab0d77e6731ed3dc49c7ad1d8c4a10d9bf1e812d70300455315aaf64d4c",
}


def _loaded(example: Path) -> JobFile:
    return load(str(example), offline_context())


@pytest.mark.parametrize("name", AS_DOCUMENTED)
def test_the_documented_jobs_are_untouched(name: str) -> None:
    assert hashlib.sha256((ROOT / "examples" / name).read_bytes()).hexdigest() == AS_DOCUMENTED[name]


@pytest.mark.parametrize("example", EXAMPLES, ids=shown)
def test_an_example_has_no_findings(example: Path) -> None:
    loaded = _loaded(example)
    assert [(report.line, report.path, report.message) for report in loaded.reports] == []
    assert loaded.jobs


@pytest.mark.parametrize("example", EXAMPLES, ids=shown)
def test_an_example_renders_every_pod_and_always_the_same(example: Path) -> None:
    [entry] = _loaded(example).jobs
    job = entry.admitted.job
    manifests = list(render(entry.admitted))
    pods = [manifest["metadata"]["name"] for manifest in manifests if manifest["kind"] == "Pod"]
    assert pods == [f"{job.name}-{task.name}-{index}" for task in job.spec.tasks for index in range(task.replicas)]
    [again] = _loaded(example).jobs
    assert list(render(again.admitted)) == manifests


@pytest.mark.parametrize("example", EXAMPLES, ids=shown)
def test_an_example_fits_the_schema(example: Path) -> None:
    documents = yaml.safe_load_all(example.read_text(encoding="utf-8"))
    [document] = [document for document in documents if document and document["kind"] == "Job"]
    jsonschema.validate(document, job_schema(kubernetes_types().types), cls=jsonschema.Draft7Validator)


def test_the_table_names_every_example_and_what_it_needs() -> None:
    """What `make examples` runs is what a reader is told; tests/local/test_examples.py runs it."""
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\S+)\]\((\S+)\) \| .+ \| (.+) \| (\d*) ?\|$", text, re.MULTILINE)
    assert sorted(link for _, link, _, _ in rows) == [example.name for example in EXAMPLES]
    assert [name for name, link, _, _ in rows if name != link] == []
    needs = {name: example.needs for name, example in examples.RUNNABLE.items()}
    assert {name: cell for name, _, cell, _ in rows} == {**needs, **examples.LEFT_OUT}
    # A job that is not run here takes no time.
    assert {name for name, _, _, seconds in rows if not seconds} == set(examples.LEFT_OUT)


def test_every_plugin_has_an_example() -> None:
    used = {
        name for example in EXAMPLES for entry in _loaded(example).jobs for name in entry.admitted.written.spec.plugins
    }
    assert set(BUILTINS) <= used


def test_every_part_of_the_job_has_an_example() -> None:
    text = "".join(example.read_text(encoding="utf-8") for example in EXAMPLES)
    for field in ("volumes", "policies", "dependsOn", "partitionPolicy", "networkTopology", "activeDeadlineSeconds"):
        assert f"{field}:" in text, field
