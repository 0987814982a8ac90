"""Pod names are translated to loopback addresses."""

from __future__ import annotations

import json

import pytest

from pumice.engines.local.plain_processes.loopback_names import Translation

HOSTS = """127.0.0.1 localhost
::1 localhost ip6-localhost
10.77.0.10 job-master-0.job job-master-0 job-master-0.job.default.svc.cluster.local
10.77.0.11 job-worker-0.job job-worker-0
10.77.0.12 job-worker-1.job job-worker-1
"""


@pytest.fixture
def translation() -> Translation:
    made = Translation(own_addresses=True)
    made.learn(HOSTS)
    return made


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("job-master-0.job", "127.77.0.10", id="name"),
        pytest.param("job-worker-0.job,job-worker-1.job", "127.77.0.11,127.77.0.12", id="list"),
        pytest.param("10.77.0.12", "127.77.0.12", id="address"),
        pytest.param("job-worker-0.job\njob-worker-1.job\n", "127.77.0.11\n127.77.0.12\n", id="host file"),
        pytest.param("job-master-0.job.default.svc.cluster.local", "127.77.0.10", id="long name"),
        pytest.param("job-worker-0.jobs job-worker-01 my-job-worker-0", None, id="other names"),
        pytest.param("localhost job worker", None, id="no pod"),
        pytest.param("10.77.0.120 110.77.0.12", None, id="other addresses"),
    ],
)
def test_text(translation: Translation, text: str, expected: str | None) -> None:
    assert translation.text(text) == (text if expected is None else expected)


def test_a_port_of_a_pod_becomes_the_same_free_port_at_every_mention(translation: Translation) -> None:
    given = {"MASTER_ADDR": "job-master-0.job", "MASTER_PORT": "23456", "RANK": "1", "HOSTNAME": "job-worker-0"}
    env = translation.env(given)
    assert env["HOSTNAME"] == "job-worker-0"
    port = env["MASTER_PORT"]
    assert (env["MASTER_ADDR"], env["RANK"]) == ("127.77.0.10", "1")
    assert port != "23456"
    assert translation.text("host=job-master-0.job\nport=23456\n") == f"host=127.77.0.10\nport={port}\n"
    assert translation.text("nc -z job-master-0 23456") == f"nc -z 127.77.0.10 {port}"
    assert translation.known_port("10.77.0.10", 23456) == int(port)
    assert translation.known_port("10.77.0.10", 80) == 80
    own = translation.env(
        {"POD_NAME": "job-worker-0", "PEER": "job-master-0", "MASTER_ADDR": "job-worker-0"}, "job-worker-0"
    )
    assert own == {"POD_NAME": "job-worker-0", "PEER": "127.77.0.10", "MASTER_ADDR": "127.77.0.11"}
    again = translation.env({"MASTER_ADDR": "job-master-0.job", "MASTER_PORT": "23456"})
    assert again["MASTER_PORT"] == port


def test_the_same_port_of_two_pods_becomes_two_ports(translation: Translation) -> None:
    config = json.dumps({"cluster": {"worker": ["job-worker-0.job:2222", "job-worker-1.job:2222"]}})
    workers = json.loads(translation.text(config))["cluster"]["worker"]
    assert len(set(workers)) == 2
    assert [worker.partition(":")[0] for worker in workers] == ["127.77.0.11", "127.77.0.12"]
    assert len({worker.partition(":")[2] for worker in workers}) == 2


def test_pods_share_the_only_loopback_address() -> None:
    translation = Translation(own_addresses=False)
    translation.learn(HOSTS)
    assert translation.text("job-worker-0.job,job-worker-1.job") == "127.0.0.1,127.0.0.1"
    ports = {translation.text(f"job-worker-{index}.job:22") for index in range(2)}
    assert len(ports) == 2


def test_the_names_of_each_pod(translation: Translation) -> None:
    assert translation.names()["10.77.0.11"] == ["10.77.0.11", "job-worker-0.job", "job-worker-0"]


def test_unknown_names_are_kept() -> None:
    empty = Translation()
    assert empty.env({"MASTER_ADDR": "a", "MASTER_PORT": "1"}) == {"MASTER_ADDR": "a", "MASTER_PORT": "1"}
