"""`submit` on a cluster when something fails on the way: nothing is done twice, half done, or taken from others."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import MAIN
from tests.cluster.fault_proxy import Call, FaultProxy
from tests.cluster.staged_cluster import SIGNATURE, Setup, refusing_webhook
from tests.cluster.staged_jobs import RUNNING, StagedJob, waiting
from tests.cluster.typed_commands import JOB, Pumice, typing
from tests.conftest import SOAK, seed
from tests.meta.tree import ROOT
from tests.patience import PATIENCE

DRAWN = 2  # crash points that `make test` tries; `make soak` tries all
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {lr: '0.1'}\n"
# All that a submission can create or delete.
WHOLE = ("submit", "job.yaml", "--replace", "--delete-claims", "--code", "--env", "TOKEN", "--with", "settings.yaml")
KINDS = ("Job", "Pod", "Secret", "ConfigMap", "PersistentVolumeClaim")


@pytest.fixture
def proxy(pumice_cluster: Cluster) -> Iterator[FaultProxy]:
    with FaultProxy(pumice_cluster) as proxy:
        yield proxy


@pytest.fixture
def pumice(
    proxy: FaultProxy,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Pumice:
    """Typed commands go through the proxy."""
    for name, text in (("job.yaml", JOB), ("settings.yaml", SETTINGS), ("train.py", "print(1)\n")):
        tmp_path.joinpath(name).write_text(text)
    # More than one Secret holds.
    tmp_path.joinpath("weights.bin").write_bytes(random.Random(1).randbytes(1_100_000))
    tmp_path.joinpath(".pumiceignore").write_text(".*\n*.log\n")
    monkeypatch.setenv("TOKEN", "s3cret")
    return typing(proxy.cluster, namespace, tmp_path, monkeypatch, capsys, server=proxy.server)


def _old_job(api: Api, namespace: str) -> StagedJob:
    """A finished Job with the name, which owns a claim."""
    job = StagedJob(api, namespace)
    job.fail()
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": job.uid}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    claim = {"metadata": {"name": "ckpt", "ownerReferences": [owner]}, "spec": spec}
    api.create("PersistentVolumeClaim", namespace, claim)
    return job


def _things_of_others(api: Api, namespace: str) -> None:
    bundle = {"pumice/code": "b" * 64}
    StagedJob(api, namespace, "other").phases(*RUNNING, running=2)
    api.patch("Job", namespace, "other", {"metadata": {"annotations": bundle}})
    labels = {"pumice/code": "b" * 12}
    code = {"metadata": {"name": f"pumice-code-{'b' * 12}-0", "labels": labels, "annotations": bundle}}
    api.create("Secret", namespace, code)
    api.create("Secret", namespace, {"metadata": {"name": "keys"}})
    api.create("ConfigMap", namespace, {"metadata": {"name": "mine"}})


def _state(api: Api, namespace: str) -> set[tuple[str, str, str]]:
    """Return what is in a namespace, by kind, name and uid."""
    return {
        (kind, each["metadata"]["name"], each["metadata"]["uid"])
        for kind in KINDS
        for each in api.list(kind, namespace)
        if each["metadata"].get("deletionTimestamp") is None
    }


def _has_effect(call: Call) -> bool:
    return call.is_write and "dryRun" not in call.query and "selfsubject" not in call.path


def _names(state: set[tuple[str, str, str]]) -> set[str]:
    return {f"{kind} {name}" for kind, name, _ in state}


# --- the client is killed -----------------------------------------------------------------------------------------


def _killed_after(proxy: FaultProxy, folder: Path, number: int, command: Sequence[str] = WHOLE) -> None:
    """Type the command in a process that dies after so many calls that had an effect; with none, before the first."""
    words = [sys.executable, "-c", MAIN, *command, "--on", "admin"]
    environ = {name: os.environ[name] for name in ("KUBECONFIG", "HOME", "TOKEN", "PATH")}
    client = subprocess.Popen(
        words, cwd=folder, env={**environ, "PYTHONPATH": str(ROOT / "src")}, stderr=subprocess.DEVNULL
    )
    begun = len(proxy.calls)

    def kill(call: Call) -> bool:
        """The server has carried out this call; another one that is on its way is not."""
        if len([*filter(_has_effect, proxy.calls[begun:])]) < number or not _has_effect(call):
            return True
        client.send_signal(signal.SIGKILL)
        return False

    proxy.after = kill
    try:
        client.wait(PATIENCE)
    finally:
        proxy.after = lambda _call: True


@pytest.mark.usefixtures("garbage_collected")
def test_a_client_that_is_killed_leaves_nothing_that_clean_does_not_remove(
    pumice: Pumice,
    proxy: FaultProxy,
    namespace: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    api = proxy.cluster.api()
    _things_of_others(api, namespace)
    before = _state(api, namespace)

    def clear() -> None:
        """Remove what has a name, and what `clean` finds; then only others' things are left, and `settings`."""
        if api.find("Job", namespace, "train") is not None:
            assert pumice("rm", "train", "--force", "--delete-claims").code == 0
        assert pumice("clean", "-y").code == 0

        def is_clear() -> bool:
            return {each for each in _state(api, namespace) if each[1] != "settings"} == before

        eventually(f"only things of others are left, not {_names(_state(api, namespace) - before)}", is_clear)
        if api.find("ConfigMap", namespace, "settings") is not None:
            api.delete("ConfigMap", namespace, "settings")

    old = _old_job(api, namespace)
    done = pumice(*WHOLE)
    assert done.code == 0, done.err
    effects = [f"{call.method} {call.path.rpartition('/')[2]}" for call in proxy.calls if _has_effect(call)]
    clear()
    points = range(1, len(effects) + 1)
    tried = points if SOAK else sorted(random.Random(seed()).sample(points, DRAWN))
    for number in tried:
        old = _old_job(api, namespace)
        _killed_after(proxy, tmp_path, number)
        done_calls = effects[:number]
        found = _state(api, namespace)
        assert found >= before, done_calls
        if "DELETE train" not in done_calls:
            assert ("Job", "train", old.uid) in found, done_calls
            assert "PersistentVolumeClaim ckpt" in _names(found), done_calls
        created = "POST jobs" in done_calls
        assert created == any(kind == "Job" and name == "train" and uid != old.uid for kind, name, uid in found)
        again = pumice(*WHOLE)
        if created:
            assert (again.code, again.out) == (2, ""), done_calls
            assert again.err.startswith("train: a Job of this name is waiting on "), again.err
        else:
            assert (again.code, again.out) == (0, "train\n"), (done_calls, again.err)
            _is_whole(api, namespace)
        clear()
    record_property("crash points", len(tried))


@pytest.mark.usefixtures("garbage_collected")
def test_a_job_whose_values_of_env_were_never_sent(
    pumice: Pumice, proxy: FaultProxy, namespace: str, tmp_path: Path
) -> None:
    """Its pods wait for their Secret: `why` says what to do, and that heals it."""
    api = proxy.cluster.api()
    # The first call that has an effect creates the Job.
    _killed_after(proxy, tmp_path, 1, ("submit", "job.yaml", "--env", "TOKEN"))
    job = api.get("Job", namespace, "train")
    assert [each["metadata"]["name"] for each in api.list("Secret", namespace)] == []
    staged = StagedJob.of(api, job)
    secret = f"pumice-env-{job['metadata']['annotations']['pumice/submission']}"
    staged.pod(0, "Pending", waiting("CreateContainerConfigError", f'secret "{secret}" not found'))
    staged.phases("Pending", pending=1)
    lines = pumice("why", "train").out.splitlines()
    assert f'secret "{secret}" not found' in lines[0]
    removal = "pumice rm train --force --on admin"
    assert lines[-1].endswith(f"ended before it sent the values of --env; submit it again after: {removal}"), lines
    assert pumice("submit", "job.yaml", "--env", "TOKEN", "--replace").code == 2  # it has not finished
    assert pumice(*removal.split()[1:4]).code == 0
    assert pumice("submit", "job.yaml", "--env", "TOKEN").code == 0
    assert len(api.list("Secret", namespace)) == 1


def _is_whole(api: Api, namespace: str) -> None:
    """A Job has all that it needs, and owns it."""
    job = api.get("Job", namespace, "train")
    uid, annotations = job["metadata"]["uid"], job["metadata"]["annotations"]
    bundle = f"pumice-code-{annotations['pumice/code'][:12]}"
    names = [f"{bundle}-0", f"{bundle}-1", f"pumice-env-{annotations['pumice/submission']}"]
    for name in names:
        owners = api.get("Secret", namespace, name)["metadata"]["ownerReferences"]
        assert uid in [each["uid"] for each in owners], name
    assert api.find("ConfigMap", namespace, "settings") is not None


# --- the API server is lost ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("garbage_collected")
@pytest.mark.parametrize("lost", ["POST secrets", "POST configmaps", "DELETE train", "POST jobs", "PATCH secrets"])
def test_the_api_server_is_lost_on_the_way(pumice: Pumice, proxy: FaultProxy, namespace: str, lost: str) -> None:
    """It has carried out a call, and does not answer."""
    api = proxy.cluster.api()
    _old_job(api, namespace)
    method, _, what = lost.partition(" ")
    was_lost = threading.Event()

    def lose(call: Call) -> bool:
        if was_lost.is_set() or not _has_effect(call) or call.method != method or what not in call.path:
            return True
        was_lost.set()
        proxy.lost_calls = 2
        return False

    proxy.after = lose
    done = pumice(*WHOLE)
    assert was_lost.is_set()
    assert (done.code, done.out) == (0, "train\n"), done.err
    jobs = [each["metadata"]["name"] for each in api.list("Job", namespace)]
    assert jobs == ["train"]
    _is_whole(api, namespace)


def test_the_api_server_stays_away_after_the_deletion(
    pumice: Pumice, proxy: FaultProxy, garbage_collected: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.client.cluster.live_objects.PATIENCE", 0.5)
    api = garbage_collected.api()
    _old_job(api, namespace)

    def leave(call: Call) -> bool:
        is_read = call.method == "GET" and call.path.endswith("/jobs/train")
        proxy.is_down = is_read and api.find("Job", namespace, "train") is None
        return True

    proxy.after = leave
    done = pumice(*WHOLE)
    assert proxy.is_down
    assert (done.code, done.out) == (1, "")
    assert "\ntrain: the finished Job is deleted, and this one is not created\n" in done.err
    assert done.err.splitlines()[-1].startswith("admin: ")


# --- somebody else ------------------------------------------------------------------------------------------------


def test_a_second_person_takes_the_name_at_the_same_time(
    pumice: Pumice, proxy: FaultProxy, api: Api, namespace: str
) -> None:
    taken: list[StagedJob] = []

    def take(call: Call) -> bool:
        if not taken and call.method == "POST" and call.path.endswith("/jobs") and "dryRun" in call.query:
            taken.append(StagedJob(api, namespace))
        return True

    proxy.after = take
    done = pumice("submit", "job.yaml", "--code")
    assert (done.code, done.out) == (2, "")
    assert "train: a Job of this name is waiting on admin/" in done.err
    assert api.get("Job", namespace, "train")["metadata"]["uid"] == taken[0].uid
    assert pumice("clean", "-y").out.startswith("code ")


def test_another_job_finished_under_the_name_since_the_question(
    pumice: Pumice, api: Api, namespace: str, garbage_collected: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the Job that the question named is deleted."""
    del garbage_collected
    StagedJob(api, namespace).phases(*RUNNING, "Completed")
    newer: list[StagedJob] = []

    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            if newer:
                return "n\n"
            api.delete("Job", namespace, "train")
            eventually("it is gone", lambda: api.find("Job", namespace, "train") is None)
            newer.append(StagedJob(api, namespace))
            newer[0].phases(*RUNNING, "Completed")
            return "y\n"

    monkeypatch.setattr("sys.stdin", Terminal())
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    done = pumice("submit", "job.yaml")
    assert done.code == 2
    assert api.get("Job", namespace, "train")["metadata"]["uid"] == newer[0].uid


# --- what is not allowed ------------------------------------------------------------------------------------------


def test_secrets_may_not_be_created(
    pumice: Pumice, proxy: FaultProxy, api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = proxy.cluster
    rights = "--verb=get,list,watch,create,patch,delete"
    cluster.kubectl("-n", namespace, "create", "role", "jobs", rights, "--resource=jobs.batch.volcano.sh")
    cluster.kubectl("-n", namespace, "create", "rolebinding", "jobs", "--role=jobs", "--user=plain")
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig("plain", namespace=namespace)))
    for flags, said in (
        (("--env", "TOKEN"), "plain: the values of --env cannot be stored: Secret pumice-env-"),
        (("--code",), "plain: the code cannot be stored: Secret pumice-code-"),
        (("--with", "settings.yaml"), "plain: ConfigMap settings: "),
    ):
        done = pumice("submit", "job.yaml", *flags, on="plain")
        assert (done.code, done.out) == (1, ""), flags
        assert said in done.err
        assert "is forbidden" in done.err
        assert api.list("Job", namespace) == []
    assert pumice("submit", "job.yaml", on="plain").out == "train\n"


def test_a_policy_refuses_secrets(pumice: Pumice, proxy: FaultProxy, api: Api, namespace: str) -> None:
    at = Setup(proxy.cluster, namespace)
    with refusing_webhook(proxy.cluster) as url:
        at.webhook(url, "secrets")
        try:
            eventually("the policy is in force", lambda: _is_refused(api, namespace))
            for flags in (("--env", "TOKEN"), ("--code",)):
                done = pumice("submit", "job.yaml", *flags)
                assert (done.code, done.out) in ((1, ""), (2, "")), flags
                assert SIGNATURE in done.err
                assert api.list("Job", namespace) == []
        finally:
            at.close()


def _is_refused(api: Api, namespace: str) -> bool:
    probe: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "probe"}}
    return api.ask("POST", f"/api/v1/namespaces/{namespace}/secrets?dryRun=All", probe).status != 201


def test_a_policy_that_begins_meanwhile_takes_the_job_back(
    pumice: Pumice, proxy: FaultProxy, api: Api, namespace: str
) -> None:
    at = Setup(proxy.cluster, namespace)
    with refusing_webhook(proxy.cluster) as url:

        def begin(call: Call) -> bool:
            if call.method == "POST" and call.path.endswith("/jobs") and "dryRun" not in call.query:
                at.webhook(url, "secrets")
                eventually("the policy is in force", lambda: _is_refused(api, namespace))
            return True

        proxy.after = begin
        try:
            done = pumice("submit", "job.yaml", "--env", "TOKEN")
        finally:
            at.close()
    assert (done.code, done.out) == (1, "")
    assert "the values of --env cannot be stored, so train is deleted again: " in done.err
    assert api.list("Job", namespace) == []
