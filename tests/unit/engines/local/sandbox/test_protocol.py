from __future__ import annotations

import pytest

from pumice.engines.local.sandbox import protocol
from pumice.engines.local.sandbox.protocol import FORMAT
from pumice.engines.local.sandbox.sandbox_errors import INTERNAL, MOUNT, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, RootFs, Tmpfs

FULL = ContainerSpec(
    id="pod/c",
    pod="pod",
    argv=("sh", "-c", "echo \udcff ü"),
    env={"A": "1", "Ü": "\udcfe"},
    cwd="/",
    root=RootFs(image="/image", upper="/upper"),
    mounts=(Mount("/a", "/b", read_only=True), Tmpfs("/t", "v", 5, 0o700)),
    files=(File("/f", bytes(range(256)), 0o600),),
    uid=1,
    gid=2,
    groups=(3, 4),
    cpus=(0, 1),
    memory=5,
    cpu_quota=0.5,
    pids=6,
    devices=("/dev/x",),
    hidden=("/home",),
    share_pid_with="other",
)


def test_a_spec_is_the_same_for_job_init() -> None:
    message = FORMAT.decode(FORMAT.encode(protocol.encode_spec(FULL)))
    assert protocol.decode_spec(message) == FULL


def test_a_long_file_is_sent_once() -> None:
    hosts = File("/etc/hosts", b"\xff" * 5000)
    specs = [FULL._replace(files=(hosts, File("/own", name.encode())), pod=name) for name in ("a", "b")]
    sent: dict[bytes, int] = {}
    messages = [FORMAT.encode(protocol.encode_spec(spec, sent)) for spec in specs]
    assert len(messages[0]) > 5000 > len(messages[1])
    contents: dict[int, bytes] = {}
    assert [protocol.decode_spec(FORMAT.decode(message), contents) for message in messages] == specs


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        pytest.param(StartError(MOUNT, "no"), MOUNT, "no", id="of the container"),
        pytest.param(KeyError("x"), INTERNAL, "KeyError: 'x'", id="defect"),
    ],
)
def test_an_error_of_job_init_is_the_same_for_the_engine(error: Exception, kind: str, text: str) -> None:
    decoded = FORMAT.decode_error(FORMAT.encode_error(error))
    assert isinstance(decoded, StartError)
    assert (decoded.kind, decoded.message) == (kind, text)
