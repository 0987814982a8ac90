"""Jobs of files: what a program gets is what the commands get, also when it was changed."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import msgspec
import pytest

import pumice
from pumice.client import job_files
from pumice.client.loading import origin_of
from pumice.client.requests import run_request
from pumice.runtime.offline_context import offline_context
from tests.meta.tree import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
CONFIG = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\ndata: {a: b}\n"


def _rendered(job: pumice.Job) -> list[object]:
    return list(job_files.render(origin_of(job).admitted))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_the_same_as_file_value_and_text(file: Path, tmp_path: Path) -> None:
    by_command = job_files.load(str(file), offline_context())
    if not by_command.is_good:
        pytest.skip("needs a plugin that is not installed")
    if not by_command.jobs:
        return
    jobs = pumice.load_all(file)
    assert [_rendered(job) for job in jobs] == [list(job_files.render(each.admitted)) for each in by_command.jobs]
    written = tmp_path / "job.yaml"
    written.write_text("---\n".join(job.to_yaml() for job in jobs), encoding="utf-8")
    again = pumice.load_all(written)
    assert again == jobs
    assert [_rendered(job) for job in again] == [_rendered(job) for job in jobs]
    # As code: the same spec, without the file.
    code = [pumice.Job(metadata=job.metadata, spec=job.spec) for job in jobs]
    assert [_rendered(job) for job in code] == [_rendered(job) for job in jobs]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "job.yaml"
    found.write_text(pumice.job("a", tasks=[pumice.task("w", command=["true"])]).to_yaml() + CONFIG)
    return found


def test_a_job_whose_lists_or_mappings_were_changed_runs_as_it_is_now(file: Path) -> None:
    for job in (pumice.load(file), pumice.job("a", tasks=[pumice.task("w", command=["true"])])):
        assert origin_of(job) is origin_of(job)
        job.spec.tasks[0].pod_spec["containers"][0]["command"] = ["false"]
        job.spec.plugins["env"] = []
        admitted = run_request(job, {}).job
        assert admitted.job.spec.tasks[0].pod_spec["containers"][0]["command"] == ["false"]
        assert [plugin.name for plugin in admitted.plugins] == ["env"]
        job.spec.plugins["nonsense"] = []
        with pytest.raises(pumice.InvalidJob, match="nonsense"):
            run_request(job, {})


def test_a_changed_job_keeps_its_file_but_not_the_lines_of_it(file: Path) -> None:
    job = pumice.load(file)
    job.spec.plugins["env"] = []
    origin = origin_of(job)
    assert (origin.source.file, origin.source.marks, origin.source.text) == (str(file), None, "")
    assert [document["metadata"]["name"] for document in origin.documents] == ["extra"]


def test_a_job_without_a_namespace_gets_that_of_its_client(file: Path) -> None:
    request = run_request(pumice.load(file), {}, namespace="ml")
    assert (request.job.written.namespace, request.job.job.namespace) == ("ml", "ml")
    assert request.source.file == str(file)
    assert [document["metadata"]["name"] for document in request.documents] == ["extra"]
    other = pumice.job("a", tasks=[pumice.task("w", command=["true"])], namespace="other")
    assert run_request(other, {}).job.job.namespace == "other"
    with pytest.raises(pumice.InvalidOption, match="namespace: other: the client is of namespace ml"):
        run_request(other, {}, namespace="ml")


@pytest.mark.parametrize(
    "wrong", ["job.yaml", None, [pumice.Job()], {"kind": "Job"}], ids=lambda each: type(each).__name__
)
def test_only_a_job_can_run(wrong: object) -> None:
    with pytest.raises(pumice.InvalidOption, match=r'job: must be a Job, found \w+\n.*pumice.load\("job.yaml"\)'):
        run_request(wrong, {})  # type: ignore[arg-type] # wrong on purpose


def test_values_that_yaml_does_not_have_are_refused() -> None:
    job = pumice.job("a", tasks=[pumice.task("w", command=["true"], env={"A": object()})])  # type: ignore[dict-item]
    with pytest.raises(pumice.InvalidJob, match="type object is unsupported"):
        run_request(job, {})


def test_a_copy_of_a_job_keeps_its_file(file: Path) -> None:
    (file.parent / "pumice.toml").write_text("fit = true\n")
    job = pumice.load(file)
    copies = [job.replace(name="b", max_retry=5), copy.copy(job), copy.deepcopy(job), job.replace(spec=job.spec)]
    if sys.version_info >= (3, 13):
        copies.append(copy.replace(job, metadata=job.metadata))
    for each in copies:
        request = run_request(each, {})
        assert (request.source.file, request.options.fit) == (str(file), True)
        assert [document["metadata"]["name"] for document in request.documents] == ["extra"]
    first = run_request(copies[0], {}).job.job
    assert (first.name, first.spec.max_retry, job.name, copies[1:4]) == ("b", 5, "a", [job] * 3)
    copies[2].spec.plugins["env"] = []
    assert job.spec.plugins == {}
    with pytest.raises(TypeError, match="nam"):
        job.replace(nam="b")


def test_a_copy_by_msgspec_is_a_job_without_a_file(file: Path) -> None:
    job = pumice.load(file)
    other = msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, name="b"))
    request = run_request(other, {})
    assert (request.job.job.name, request.source.file, request.documents) == ("b", "", [])
