from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from pumice.model.job import Job
from pumice.model.objects import KeyPair
from pumice.plugins.ssh import Ssh
from pumice.runtime.key_pairs import make_key_pair
from tests.builders import NAMESPACE, OWNER, a_container, a_job, a_slot, a_task, a_template, rows, shaped

FRESH = {kind: KeyPair(f"private {kind}\n", f"public {kind}\n") for kind in ("rsa", "ed25519")}
TWO_TASKS = a_job(a_task("master"), a_task("worker", 2))
CONFIG = """\
Host train-master-* !train-master-*-* !*.*
  HostName %h.train
  Port 22
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
Host train-master-*.train !train-master-*-*.train !*.*.*
  Port 22
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
Host train-worker-* !train-worker-*-* !*.*
  HostName %h.train
  Port 22
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
Host train-worker-*.train !train-worker-*-*.train !*.*.*
  Port 22
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
"""


def secret(entries: dict[str, str], ssh: Ssh | None = None, job: Job = TWO_TASKS) -> None:
    """Assert that the plugin wants one Secret, created with these entries."""
    (once,) = (ssh or Ssh()).objects(job)
    assert once.created_with(FRESH.__getitem__) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "train-ssh", "namespace": NAMESPACE, "ownerReferences": [OWNER]},
        "type": "Opaque",
        "stringData": entries,
    }


@pytest.mark.parametrize(
    ("args", "entries"),
    [
        pytest.param(
            [],
            {"id_rsa": "private rsa\n", "id_rsa.pub": "public rsa\n", "authorized_keys": "public rsa\n"},
            id="a fresh rsa pair",
        ),
        pytest.param(
            ["--ssh-key-type=ed25519"],
            {
                "id_ed25519": "private ed25519\n",
                "id_ed25519.pub": "public ed25519\n",
                "authorized_keys": "public ed25519\n",
            },
            id="a fresh ed25519 pair",
        ),
        pytest.param(
            ["--ssh-private-key=PRIVATE\n", "--ssh-public-key=PUBLIC"],
            {"id_rsa": "PRIVATE\n", "id_rsa.pub": "PUBLIC", "authorized_keys": "PUBLIC"},
            id="given keys as they are",
        ),
        pytest.param(
            ["--ssh-private-key=PRIVATE", "--ssh-key-type=ed25519"],
            {"id_rsa": "PRIVATE", "id_rsa.pub": "", "authorized_keys": ""},
            id="a given private key alone; the type is that of fresh keys",
        ),
        pytest.param(
            ["--ssh-public-key=PUBLIC"],
            {"id_rsa": "private rsa\n", "id_rsa.pub": "public rsa\n", "authorized_keys": "public rsa\n"},
            id="a given public key alone is not used",
        ),
    ],
)
def test_the_secret(args: list[str], entries: dict[str, str]) -> None:
    ssh, findings = Ssh.parse(args)
    assert findings == []
    secret({**entries, "config": CONFIG}, ssh)


def test_given_keys_are_marked() -> None:
    assert [next(Ssh(ssh_private_key=key).objects(TWO_TASKS)).given for key in ("", "PRIVATE")] == [False, True]


def test_defect_25_the_config_holds_for_any_number_of_pods() -> None:
    """Volcano lists the hosts when it creates the Secret, so pods that are added later are missing.

    The Secret cannot follow: kubelet empties the mount of a changed Secret in running pods, because it is a subPath.
    """
    configs = set()
    for replicas in (0, 2, 300):
        (once,) = Ssh().objects(a_job(a_task("master"), a_task("worker", replicas)))
        configs.add(once.manifest["stringData"]["config"])
    assert configs == {CONFIG}


# One task is the beginning of another's name, of another job's name, and of a name in another domain.
NAMED = a_job(
    a_task("worker", 2),
    a_task("worker-gpu", 1, a_template(subdomain="my-gpus")),
    a_task("boss", 1, a_template(hostname="boss")),
    a_task("odd", 0, a_template(hostname="train-worker-9", subdomain="odd")),
)


@pytest.mark.needs("ssh-keygen")
@pytest.mark.parametrize(
    ("host", "resolved"),
    [
        pytest.param("train-worker-0", "train-worker-0.train", id="a pod"),
        pytest.param("train-worker-0.train", "train-worker-0.train", id="a pod, with its subdomain"),
        pytest.param("train-worker-1234", "train-worker-1234.train", id="a pod that scaling adds"),
        pytest.param("train-worker-gpu-0", "train-worker-gpu-0.my-gpus", id="a longer task, another subdomain"),
        pytest.param("train-worker-gpu-0.my-gpus", "train-worker-gpu-0.my-gpus", id="a subdomain with a dash"),
        pytest.param("boss", "boss.train", id="an own host name"),
        pytest.param("boss.train", "boss.train", id="an own host name, with the subdomain"),
        pytest.param("train-worker-9", "train-worker-9.odd", id="an own host name that looks like another task's"),
        pytest.param("train-worker-9.odd", "train-worker-9.odd", id="the same with its subdomain"),
        pytest.param("train-worker-cpu-0", None, id="task cpu of a job train-worker"),
        pytest.param("train-worker-cpu-0.train", None, id="no task of this job"),
        pytest.param("train-worker-cpu-0.train-worker", None, id="task cpu of a job train-worker, with the subdomain"),
        pytest.param("train-worker-0.other", None, id="another domain"),
        pytest.param("train-worker-0.example.train", None, id="another domain that ends alike"),
        pytest.param("train-worker-0.train.default.svc.cluster.local", None, id="the full name in a cluster"),
        pytest.param("train-worker-gpu-0.train", None, id="the subdomain of another task"),
        pytest.param("train2-worker-0", None, id="a longer job"),
        pytest.param("my-train-worker-0", None, id="a job that ends alike"),
        pytest.param("boss2", None, id="a longer host name"),
        pytest.param("boss.other", None, id="an own host name in another domain"),
        pytest.param("localhost", None, id="the pod itself"),
        pytest.param("git.example.org", None, id="the rest of the world"),
    ],
)
def test_ssh_reads_the_config_as_meant(host: str, resolved: str | None, tmp_path: Path) -> None:
    (once,) = Ssh(ssh_port=2222).objects(NAMED)
    config, empty = tmp_path / "config", tmp_path / "empty"
    config.write_text(once.manifest["stringData"]["config"])
    empty.touch()
    untouched = _ssh_options(empty, host)
    expected = untouched if resolved is None else untouched | _options_within_a_job(resolved)
    assert _ssh_options(config, host) == expected


def _options_within_a_job(host: str) -> dict[str, str]:
    options = {"port": "2222", "stricthostkeychecking": "false", "userknownhostsfile": "/dev/null"}
    return {**options, "hostname": host}


def _ssh_options(config: Path, host: str) -> dict[str, str]:
    """All options with which the real ssh would reach a host; without one that ssh derives from the others."""
    command = ["ssh", "-G", "-F", str(config), host]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    options = dict(line.partition(" ")[::2] for line in done.stdout.splitlines())
    options.pop("updatehostkeys", None)
    return options


@pytest.mark.parametrize(
    ("args", "mode", "path", "key"),
    [
        pytest.param([], 0o600, "/root/.ssh", "id_rsa", id="for root"),
        pytest.param(["--ssh-key-file-path=/home/u/.ssh"], 0o644, "/home/u/.ssh", "id_rsa", id="for another user"),
        pytest.param(["--ssh-key-type=ed25519"], 0o600, "/root/.ssh", "id_ed25519", id="ed25519"),
    ],
)
def test_every_container_gets_the_keys(args: list[str], mode: int, path: str, key: str) -> None:
    template = a_template(a_container(), a_container("other"), initContainers=[a_container("init")])
    pod = shaped(Ssh.parse(args)[0], a_job(a_task(template=template)))
    mounts = [{"name": "train-ssh", "mountPath": path, "subPath": ".ssh"}]
    assert pod.spec == {
        "schedulerName": "volcano",
        "containers": [a_container(volumeMounts=mounts), a_container("other", volumeMounts=mounts)],
        "initContainers": [a_container("init", volumeMounts=mounts)],
        "volumes": [
            {
                "name": "train-ssh",
                "secret": {
                    "secretName": "train-ssh",
                    "items": [
                        {"key": key, "path": f".ssh/{key}"},
                        {"key": f"{key}.pub", "path": f".ssh/{key}.pub"},
                        {"key": "authorized_keys", "path": ".ssh/authorized_keys"},
                        {"key": "config", "path": ".ssh/config"},
                    ],
                    "defaultMode": mode,
                },
            }
        ],
    }


PAIR = make_key_pair("ed25519")
OLD_PAIR = make_key_pair("rsa")
# The form of a key that is locked by a passphrase; what is locked in it does not matter.
LOCKED = """\
-----BEGIN RSA PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF

AAAA
-----END RSA PRIVATE KEY-----
"""
AT = "spec.plugins.ssh"
NOT_PRIVATE = "--ssh-private-key is not a private key that can be read; it is used as it is"
NOT_PUBLIC = "--ssh-public-key is not a public key in OpenSSH's form; it is used as it is"


@pytest.mark.parametrize(
    ("private", "public", "messages"),
    [
        pytest.param("", "", [], id="none given"),
        pytest.param(PAIR.private, PAIR.public, [], id="ed25519"),
        pytest.param(OLD_PAIR.private, OLD_PAIR.public, [], id="rsa in PEM form"),
        pytest.param(LOCKED, PAIR.public, [], id="with a passphrase it is a key all the same"),
        pytest.param("nonsense", PAIR.public, [NOT_PRIVATE], id="no private key"),
        pytest.param(PAIR.private[:-60], PAIR.public, [NOT_PRIVATE], id="a private key cut short"),
        pytest.param(PAIR.private, "nonsense", [NOT_PUBLIC], id="no public key"),
        pytest.param(PAIR.private, "ssh-dss AAAA", [NOT_PUBLIC], id="a public key of an unknown kind"),
        pytest.param(
            "",
            PAIR.public,
            ["--ssh-public-key is ignored without --ssh-private-key; a fresh pair is made"],
            id="public only",
        ),
        pytest.param(
            PAIR.private,
            "",
            ["--ssh-private-key without --ssh-public-key: authorized_keys will be empty, so no pod can log in"],
            id="private only",
        ),
    ],
)
def test_given_keys_are_looked_at(private: str, public: str, messages: list[str]) -> None:
    ssh = Ssh(ssh_private_key=private, ssh_public_key=public)
    assert rows(ssh.check(a_job())) == [("warning", AT, message) for message in messages]


@pytest.mark.parametrize("path", ["root/.ssh", "", "/root:/.ssh"])
def test_the_path_must_be_one(path: str) -> None:
    template = a_template(a_container(securityContext={"runAsUser": 0}))
    findings = list(Ssh(ssh_key_file_path=path).check(a_job(a_task(template=template))))
    assert rows(findings) == [("error", AT, "--ssh-key-file-path must be an absolute path without ':'")]


NOT_ROOT = "does not run as root, but the ssh keys are in /root/.ssh, which only root can read"
IS_ROOT = "runs as root, whose ssh refuses keys that all can read, as in /home/u/.ssh"


@pytest.mark.parametrize(
    ("pod", "container", "path", "message"),
    [
        pytest.param(None, None, "/root/.ssh", None, id="the image decides"),
        pytest.param(None, {"runAsUser": 1000}, "/root/.ssh", NOT_ROOT, id="container, user 1000"),
        pytest.param(None, {"runAsNonRoot": True}, "/root/.ssh", NOT_ROOT, id="container, not root"),
        pytest.param({"runAsUser": 1000}, None, "/root/.ssh", NOT_ROOT, id="pod, user 1000"),
        pytest.param({"runAsUser": 1000}, {"runAsUser": 0}, "/root/.ssh", None, id="the container decides"),
        pytest.param({"runAsUser": 0}, {"runAsNonRoot": False}, "/root/.ssh", None, id="allowed to be root, and is"),
        pytest.param({"runAsUser": 0}, None, "/home/u/.ssh", IS_ROOT, id="pod, root, other path"),
        pytest.param(None, {"runAsUser": 1000}, "/home/u/.ssh", None, id="user 1000, other path"),
        pytest.param(None, None, "/home/u/.ssh", None, id="the image decides, other path"),
    ],
)
def test_keys_that_the_user_cannot_use(
    pod: dict[str, Any] | None, container: dict[str, Any] | None, path: str, message: str | None
) -> None:
    one = a_container(securityContext=container)
    template = a_template(a_container("x", securityContext={"runAsUser": 0 if path == "/root/.ssh" else 1}), one)
    template["spec"] |= {"initContainers": [one], "securityContext": pod}
    ssh = Ssh(ssh_key_file_path=path)
    found = list(ssh.check(a_job(a_task("ok", template={"spec": None}), a_task(template=template))))
    paths = [f"spec.tasks[1].template.spec.{path}" for path in ("initContainers[0]", "containers[1]")]
    assert rows(found) == ([("warning", path, message) for path in paths] if message else [])
    hints = {NOT_ROOT: "/home/<user>/.ssh", IS_ROOT: "/root/.ssh"}
    assert all(hints[finding.message] in finding.hint for finding in found)


def test_why() -> None:
    assert Ssh().why(a_slot(a_job())) == {
        "volume train-ssh": "key pair, authorized_keys and config",
        "mount /root/.ssh": "keys that let the pods log in to each other",
    }
