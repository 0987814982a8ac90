from __future__ import annotations

import re

import pytest

from pumice.model import naming
from pumice.model.job import VolumeSpec
from pumice.model.naming import LongestName
from tests.builders import UID, a_job, a_task, a_template


def test_names_by_job_task_and_index() -> None:
    assert naming.pod("train", "worker", 12) == "train-worker-12"
    assert naming.pod_group("train", UID) == f"train-{UID}"
    assert naming.service("train") == naming.network_policy("train") == "train"
    assert naming.hosts_config_map("train") == "train-svc"
    assert naming.ssh_secret("train") == "train-ssh"
    assert naming.log_tails_secret("train") == "train-log-tails"
    assert naming.ray_head_service("train") == "train-head-svc"
    assert naming.default_task(2) == "default2"
    assert naming.template_uid("train", "worker") == "train-worker"
    assert naming.task_key("a-b-c") == "a_b_c"


def test_defect_31_the_suffix_of_claims_is_the_same_every_time() -> None:
    """Volcano draws a new random name for the volume of every pod."""
    # Twelve digits of the hash of uid and index, written out here: a change would orphan the claims of running jobs.
    assert naming.claim("train", UID, 0) == "train-pvc-5adoizjaeejc"
    assert naming.claim_volume("train", UID, 0) == "train-5adoizjaeejc"


def test_suffixes_differ_by_uid_and_index() -> None:
    names = [naming.claim("train", uid, index) for uid in ("a", "b") for index in range(50)]
    assert len(set(names)) == 100
    assert [name for name in names if not re.fullmatch(r"train-pvc-[0-9a-z]{12}", name)] == []


@pytest.mark.parametrize(
    ("template", "hostname", "subdomain", "hosts"),
    [
        pytest.param({}, "train-worker-1", "train", ["train-worker-0.train", "train-worker-1.train"], id="no spec"),
        pytest.param(
            {"spec": None}, "train-worker-1", "train", ["train-worker-0.train", "train-worker-1.train"], id="null"
        ),
        pytest.param(a_template(hostname="box"), "box", "train", ["box.train"], id="a fixed host name"),
        pytest.param(
            a_template(subdomain="net"),
            "train-worker-1",
            "net",
            ["train-worker-0.net", "train-worker-1.net"],
            id="subdomain",
        ),
        pytest.param(a_template(hostname="box", subdomain="net"), "box", "net", ["box.net"], id="both"),
        pytest.param(
            a_template(hostname=5, subdomain=[]),
            "train-worker-1",
            "train",
            ["train-worker-0.train", "train-worker-1.train"],
            id="no texts",
        ),
    ],
)
def test_hosts(template: dict[str, object], hostname: str, subdomain: str, hosts: list[str]) -> None:
    task = a_task("worker", 2, template or {"x": 1})
    job = a_job(task)
    assert naming.hostname(job, task, 1) == hostname
    assert naming.subdomain(job, task) == subdomain
    assert naming.host(job, task, 1) == f"{hostname}.{subdomain}"
    assert naming.hosts(job, task) == hosts


def test_a_task_without_pods_has_no_hosts() -> None:
    for template in (a_template(), a_template(hostname="box")):
        task = a_task("worker", 0, template)
        assert naming.hosts(a_job(task), task) == []


def test_defect_32_the_longest_names_count_the_highest_index() -> None:
    """Volcano checks the pod's name with the position of the task for an index."""
    job = a_job(
        a_task("a", 101),
        a_task("b", 0),
        volumes=[VolumeSpec(mount_path="/a", volume_claim_name="c")],
        plugins={"svc": [], "ssh": [], "ray": []},
    )
    assert list(naming.longest_names(job)) == [
        LongestName("pod name", "train-a-100", 63, 0),
        LongestName("pod name", "train-b-0", 63, 1),
        LongestName("label with the job's name", "train", 63),
        LongestName("name of the hosts volume", "train-svc", 63),
        LongestName("name of the ssh volume", "train-ssh", 63),
        LongestName("name of the head Service", "train-head-svc", 63),
        LongestName("name of a claim's volume", naming.claim_volume("train", UID, 0), 63),
    ]
    assert [longest.what for longest in naming.longest_names(a_job())] == ["pod name", "label with the job's name"]
