from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pumice.engines.local.container_spec.builder import SandboxFacts, SpecBuilder, holder_id
from pumice.engines.local.container_spec.job_inputs import JobInputs
from pumice.engines.local.container_spec.restrictions import Processors
from pumice.engines.local.images.sources import ImageConfig
from pumice.engines.local.images.store import Image
from pumice.engines.local.sandbox.sandbox_errors import StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, Mount
from pumice.model.job import Manifest
from pumice.model.resources import GPU
from pumice.plugins.wait_for_master import waiting_container
from pumice.store.settings import ExtraMount, Settings
from tests.builders import a_job, a_task, literal
from tests.unit.engines.local.pod_values import a_pod


@dataclass
class Bench:
    settings: Settings
    scratch: Path
    sandbox: SandboxFacts = field(default_factory=SandboxFacts)
    gpus: Mapping[str, Sequence[str]] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)

    @property
    def inputs(self) -> JobInputs:
        return JobInputs(
            job=a_job(a_task(replicas=2)),
            settings=self.settings,
            scratch=self.scratch,
            documents=(),
            objects=list,
            claims={},
            address_of={"worker-0": "10.77.0.10", "worker-1": "10.77.0.11"}.__getitem__,
            image_of=self.images.get,
        )

    @property
    def builder(self) -> SpecBuilder:
        return SpecBuilder(
            inputs=self.inputs,
            sandbox=self.sandbox,
            warn=self.warned.append,
            gpus_of=lambda pod: self.gpus.get(pod, ()),
            processors=Processors((0, 1, 2, 3)),
        )

    def spec(self, container: Manifest, *, attempt: int = 0, **pod: Any) -> ContainerSpec:
        container = {"name": "c", "image": "known", **container}
        return self.builder.spec(a_pod(container, **pod), "uid-1", "10.77.0.10", container, attempt)

    def add_image(self, root: Path, entrypoint: str = "", **config: Any) -> None:
        config["entrypoint"] = (entrypoint,) if entrypoint else ()
        self.images["known"] = Image("known", root, str(root), config=ImageConfig(**config))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    settings = Settings(workdir=tmp_path / "work", state=tmp_path / "state", entrypoints={"named": ("run", "it")})
    return Bench(settings, tmp_path / "scratch/volumes")


STATE = "/data/state/pumice"
COMMANDS: list[Any] = [
    pytest.param({"command": ["a"], "args": ["b"]}, ("a", "b"), id="command and args"),
    pytest.param({"args": ["b"]}, ("entry", "b"), id="args for the image's entrypoint"),
    pytest.param({}, ("entry", "arg"), id="entrypoint and cmd of the image"),
    pytest.param({"command": ["a"]}, ("a",), id="command replaces entrypoint and cmd"),
    pytest.param({"image": "named", "args": ["b"]}, ("run", "it", "b"), id="--entrypoint"),
    pytest.param({"command": ["echo", "$(A)$(B)$$(A)"], "env": literal(A="1")}, ("echo", "1$(B)$(A)"), id="variables"),
]


@pytest.mark.parametrize(("container", "argv"), COMMANDS)
def test_commands(bench: Bench, tmp_path: Path, container: Manifest, argv: tuple[str, ...]) -> None:
    bench.add_image(tmp_path, "entry", cmd=("arg",))
    assert bench.spec(container).argv == argv


def test_a_container_without_a_command_cannot_be_started(bench: Bench) -> None:
    with pytest.raises(StartError, match="has no command, and this machine has no image other") as error:
        bench.spec({"image": "other"})
    assert "--entrypoint other=COMMAND" in str(error.value)


def test_args_are_the_command_unless_they_are_options(bench: Bench, tmp_path: Path) -> None:
    bench.add_image(tmp_path)
    assert bench.spec({"image": "other", "args": ["python3", "-V"]}).argv == ("python3", "-V")
    assert bench.spec({"args": ["python3", "-V"]}).argv == ("python3", "-V")
    with pytest.raises(StartError, match="has no command, and this machine has no image other"):
        bench.spec({"image": "other", "args": ["--epochs", "3"]})
    with pytest.raises(StartError, match="has no command, and its image known names none"):
        bench.spec({"args": ["--epochs", "3"]})


def test_the_host_serves_as_image(bench: Bench, tmp_path: Path) -> None:
    spec = bench.spec({"command": ["a"]})
    work = str(tmp_path / "work")
    assert (spec.id, spec.pod, spec.cwd) == ("train-worker-0/c", "train-worker-0", work)
    assert (spec.root.image, spec.root.upper) == (None, None)
    assert {"/home", "/root"} <= set(spec.hidden)
    assert spec.mounts[:-1] == (Mount(work, work, volume="/"),)
    assert {"/etc/hosts", "/etc/passwd", "/etc/group"} <= {file.path for file in spec.files}
    hosts = next(file.data.decode() for file in spec.files if file.path == "/etc/hosts")
    assert "10.77.0.11" in hosts


def test_an_image(bench: Bench, tmp_path: Path) -> None:
    bench.add_image(tmp_path, "entry", env={"A": "image", "PATH": "/image"}, workdir="/srv")
    spec = bench.spec({"env": literal(A="own")})
    assert (spec.root.image, spec.cwd) == (str(tmp_path), "/srv")
    assert (spec.env["A"], spec.env["PATH"]) == ("own", "/image")
    assert bench.spec({"workingDir": "/elsewhere"}).cwd == "/elsewhere"


def test_precedence_of_variables(bench: Bench) -> None:
    bench.settings = replace(bench.settings, env={"B": "given", "C": "given"})
    bench.sandbox = SandboxFacts(env={"http_proxy": "http://10.77.0.1:1"})
    env = bench.spec({"command": ["a"], "env": literal(C="own")}).env
    assert (env["B"], env["C"], env["http_proxy"]) == ("given", "given", "http://10.77.0.1:1")
    assert (env["GLOO_SOCKET_IFNAME"], env["HOSTNAME"], env["HOME"]) == ("eth0", "train-worker-0", "/root")


def with_resources(**limits: Any) -> Manifest:
    return {"command": ["a"], "resources": {"limits": limits}}


def test_limits(bench: Bench) -> None:
    bench.sandbox = SandboxFacts(kernel_limits=frozenset({"cpu", "memory"}))
    spec = bench.spec(with_resources(cpu="1500m", memory="1Gi"))
    assert (spec.cpu_quota, spec.memory, spec.cpus, spec.env["OMP_NUM_THREADS"]) == (1.5, 1 << 30, (), "2")
    assert bench.warned == []


def test_omp_num_threads_of_the_user_wins(bench: Bench) -> None:
    spec = bench.spec({**with_resources(cpu="2"), "env": literal(OMP_NUM_THREADS="7")})
    assert spec.env["OMP_NUM_THREADS"] == "7"
    assert "OMP_NUM_THREADS" not in bench.spec({"command": ["a"]}).env


def test_whole_cpus_are_bound_without_control_groups(bench: Bench) -> None:
    assert bench.spec(with_resources(cpu="2")).cpus == (0, 1)
    assert bench.spec(with_resources(cpu="1500m")).cpus == ()
    assert bench.warned == ["container c: limits.cpu 1.5 is not enforced: there are no control groups"]


def test_gpus(bench: Bench) -> None:
    bench.gpus = {"train-worker-0": ("4", "7")}
    env = bench.spec(with_resources(**{GPU: 2})).env
    assert env["CUDA_VISIBLE_DEVICES"] == "4,7"
    assert "CUDA_VISIBLE_DEVICES" not in bench.spec({"command": ["a"]}).env


@pytest.mark.parametrize(
    ("container", "pod", "ids"),
    [
        pytest.param({}, {}, (None, None), id="none"),
        pytest.param({}, {"runAsUser": 5, "runAsGroup": 6}, (5, 6), id="pod"),
        pytest.param({"runAsUser": 7}, {"runAsUser": 5, "runAsGroup": 6}, (7, 6), id="container wins"),
        pytest.param({"runAsUser": 0}, {"runAsUser": 5}, (0, None), id="root"),
    ],
)
def test_users(bench: Bench, container: Manifest, pod: Manifest, ids: tuple[int | None, int | None]) -> None:
    spec = bench.spec({"command": ["a"], "securityContext": container}, securityContext=pod)
    assert (spec.uid, spec.gid) == ids


@pytest.mark.parametrize(
    ("user", "ids"),
    [("app", (1000, 1001)), ("12", (12, 0)), ("12:34", (12, 34)), ("app:staff", (1000, 50)), ("app:0", (1000, 0))],
)
def test_users_of_an_image(bench: Bench, tmp_path: Path, user: str, ids: tuple[int | None, int | None]) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("app:x:1000:1001::/home/app:/bin/sh\n")
    (tmp_path / "etc/group").write_text("staff:x:50:\n")
    bench.add_image(tmp_path, "entry", user=user)
    spec = bench.spec({})
    assert (spec.uid, spec.gid) == ids


def test_a_user_who_is_not_in_the_image_does_not_become_root(bench: Bench, tmp_path: Path) -> None:
    bench.add_image(tmp_path, "entry", user="app")
    with pytest.raises(StartError, match="its image runs as app, who is not in its /etc/passwd"):
        bench.spec({})
    assert bench.spec({"securityContext": {"runAsUser": 5}}).uid == 5


@pytest.mark.parametrize(
    ("image", "user", "home"),
    [
        pytest.param("known", None, "/root", id="root"),
        pytest.param("known", 1000, "/srv/app", id="account of the image"),
        pytest.param("known", 7, "/", id="without an account"),
        pytest.param("host", 1000, "/", id="host"),
    ],
)
def test_homes(bench: Bench, tmp_path: Path, image: str, user: int | None, home: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("app:x:1000:1001::/srv/app:/bin/sh\n")
    bench.add_image(tmp_path)
    fields = {"image": image, "command": ["a"], "securityContext": {"runAsUser": user}}
    assert bench.spec(fields).env["HOME"] == home
    assert bench.spec({**fields, "env": literal(HOME="/own")}).env["HOME"] == "/own"


@pytest.mark.parametrize(
    ("user", "refused"),
    [pytest.param("", True, id="image without a user"), pytest.param("0", True), pytest.param("5", False)],
)
def test_run_as_non_root(bench: Bench, tmp_path: Path, user: str, refused: bool) -> None:
    bench.add_image(tmp_path, "entry", user=user)
    fields = {"securityContext": {"runAsNonRoot": True}}
    if refused:
        with pytest.raises(StartError, match="runAsNonRoot is set, and it would run as root"):
            bench.spec(fields)
        assert bench.spec({"securityContext": {"runAsNonRoot": True, "runAsUser": 7}}).uid == 7
    else:
        assert bench.spec(fields).uid == 5
    on_host = {"image": "host", "command": ["a"], **fields}
    with pytest.raises(StartError, match="runAsNonRoot is set, and it would run as root"):
        bench.spec(on_host)
    bench.sandbox = SandboxFacts(all_users=False)
    bench.spec(on_host)
    assert bench.warned == ["container c: runAsNonRoot is not honoured: no image names another user"]


def test_groups(bench: Bench) -> None:
    context = {"supplementalGroups": [5, 6], "fsGroup": 7}
    assert bench.spec({"command": ["a"]}, securityContext=context).groups == (5, 6, 7)
    assert bench.spec({"command": ["a"]}, securityContext={"fsGroup": 0}).groups == (0,)
    bench.sandbox = SandboxFacts(all_users=False)
    assert bench.spec({"command": ["a"]}, securityContext=context).groups == ()


def test_run_as_user_is_ignored_where_there_is_one_user(bench: Bench) -> None:
    bench.sandbox = SandboxFacts(all_users=False)
    spec = bench.spec({"command": ["a"], "securityContext": {"runAsUser": 5}})
    assert (spec.uid, spec.gid) == (None, None)
    assert any("5" in warning for warning in bench.warned)


def test_wait_for_master_without_its_user_needs_no_warning(bench: Bench) -> None:
    bench.sandbox = SandboxFacts(all_users=False)
    container = waiting_container("master", 23456, 10, "small", None)
    manifest = a_pod({"name": "c"}, initContainers=[container])
    spec = bench.builder.spec(manifest, "uid-1", "10.77.0.10", container, 0)
    assert (spec.uid, spec.cwd, bench.warned) == (None, "/", [])


def test_keep_names_the_upper_directory(bench: Bench, tmp_path: Path) -> None:
    bench.settings = replace(bench.settings, keep=True)
    assert bench.spec({"command": ["a"]}, attempt=2).root.upper == str(tmp_path / "scratch/train-worker-0.c.2")


def test_mounts(bench: Bench, tmp_path: Path) -> None:
    extra = (ExtraMount(tmp_path / "a"), ExtraMount(tmp_path / "b", read_only=True))
    bench.settings = replace(bench.settings, mounts=extra, python=(tmp_path / "venv",))
    mounts = bench.spec({"command": ["a"]}).mounts[:-1]
    assert [(mount.target, mount.read_only) for mount in mounts if isinstance(mount, Mount)] == [
        (str(tmp_path / "work"), False),
        (str(tmp_path / "venv"), True),
        (str(tmp_path / "a"), False),
        (str(tmp_path / "b"), True),
    ]


def test_termination_message_file(bench: Bench, tmp_path: Path) -> None:
    for attempt, fields in enumerate(({"terminationMessagePath": "/w"}, {"terminationMessagePolicy": "File"}, {})):
        mount = bench.spec({"command": ["a"], **fields}, attempt=attempt).mounts[-1]
        assert isinstance(mount, Mount)
        assert mount.target == fields.get("terminationMessagePath", "/dev/termination-log")
        assert mount.source == str(tmp_path / f"scratch/volumes/pods/uid-1/message.c.{attempt}")
        assert Path(mount.source).stat().st_mode & 0o777 == 0o666


def test_share_process_namespace(bench: Bench) -> None:
    manifest = a_pod({"name": "c"})
    holder = bench.builder.holder(manifest)
    assert (holder.id, holder.pod) == (holder_id("train-worker-0"), "train-worker-0")
    assert bench.spec({"command": ["a"]}).share_pid_with is None
    assert bench.spec({"command": ["a"]}, shareProcessNamespace=True).share_pid_with == holder.id


def test_problems_are_found_before_the_start(bench: Bench) -> None:
    container = {"name": "c", "image": "none", "envFrom": [{"configMapRef": {"name": "gone"}}]}
    found = [problem.message for problem in bench.inputs.problems(a_pod(container), container)]
    assert found[0] == "envFrom: there is no ConfigMap gone"
    assert found[1].startswith("has no command")
    with pytest.raises(StartError, match="there is no ConfigMap gone"):
        bench.spec({**container, "command": ["a"]})
