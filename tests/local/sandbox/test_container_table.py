"""One container: its output, its end, its file system, and commands that run in it."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.client import Ended
from pumice.engines.local.sandbox.sandbox_errors import GONE, StartError
from pumice.engines.local.sandbox.specs import File, Mount, RootFs, Tmpfs
from tests.local.sandbox.boxes import AS_ROOT, Box, in_box
from tests.patience import PATIENCE

pytestmark = pytest.mark.usefixtures("namespaces")


@in_box
async def test_stdout_and_stderr_are_two_streams(box: Box) -> None:
    await box.pod("a")
    (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe()
    spec = box.spec("a", "sh", "-c", "echo out; echo err >&2; exit 3")
    await box.sandbox.start_container(spec, out_write, err_write)
    assert await box.sandbox.ended(spec.id) == Ended(3, 0, oom=False)
    assert (os.read(out_read, 99), os.read(err_read, 99)) == (b"out\n", b"err\n")
    for descriptor in (out_read, out_write, err_read, err_write):
        os.close(descriptor)


@in_box
async def test_the_command_is_pid_1_with_its_own_host_name_and_environment(box: Box) -> None:
    await box.pod("pod-0")
    script = "echo $$; hostname; cat /proc/sys/kernel/hostname; echo $GREETING; pwd; id -u"
    code, text = await box.shell("pod-0", script, env={"GREETING": "hello", "PATH": os.defpath}, cwd="/made/for/it")
    assert (code, text.split("\n")[:-1]) == (0, ["1", "pod-0", "pod-0", "hello", "/made/for/it", "0"])


@in_box
async def test_a_child_killed_by_a_signal(box: Box) -> None:
    await box.pod("a")
    # The first process of a pid namespace cannot kill itself; a shell reports the signal of its child as 128 + 11.
    assert (await box.shell("a", "sh -c 'kill -SEGV $$'; exit $?"))[0] == 139


@in_box
async def test_more_mounts_than_descriptors_in_one_message(box: Box, tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(300)]
    for path in paths:
        path.write_text(path.name)
    mounts = tuple(Mount(str(path), f"/data/{path.name}") for path in paths)
    await box.pod("a")
    assert await box.shell("a", "cat /data/0 /data/299; ls /data | wc -l", mounts=mounts) == (0, "0299300\n")


@in_box
async def test_a_file_that_containers_share_is_no_mount_and_private(box: Box) -> None:
    shared = File("/etc/made/by/test", b"", shared=True), File("/etc/test.conf", b"shared\n", 0o640, shared=True)
    specs = {"files": shared, "hidden_files": ("/etc/hostname",), "hidden": ("/home", "/root")}
    for pod in ("a", "b"):
        await box.pod(pod)
        script = "cat /etc/test.conf /etc/hostname; grep -c test.conf /proc/self/mountinfo; stat -c %a /etc/test.conf"
        change = f"echo {pod} >> /etc/test.conf; rm /etc/hostname; ls /etc/hostname 2>&1 | wc -l"
        printed = await box.shell(pod, f"{script}; {change}; ls /etc/made/by", **specs)
        assert printed == (0, "shared\n0\n640\n1\ntest\n")


@in_box
async def test_a_mount_covers_neither_files_of_the_job_nor_shows_hidden_ones(box: Box, tmp_path: Path) -> None:
    for name in ("hostname", "passwd", "own"):
        (tmp_path / name).write_text("of the volume\n")
    files = (File("/etc/passwd", b"of the job\n", shared=True),)
    changes = {"files": files, "hidden_files": ("/etc/hostname",), "mounts": (Mount(str(tmp_path), "/etc"),)}
    await box.pod("a")
    assert await box.shell("a", "cat /etc/passwd /etc/hostname /etc/own", **changes) == (
        0,
        "of the job\nof the volume\n",
    )


@in_box
async def test_background_processes_end_with_the_container(box: Box) -> None:
    await box.pod("a")
    output = await box.start(box.spec("a", "sh", "-c", "sleep 1000 & echo started"))
    # The pipe is at its end when no process holds it.
    assert await output.rest() == "started\n"
    assert (await output.ended()).code == 0


@in_box
async def test_mounts_files_and_memory(box: Box, tmp_path: Path) -> None:
    for name in ("writable", "readable"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "here").write_text(f"{name}\n")
    await box.pod("a")
    mounts = (
        Mount(str(tmp_path / "readable"), "/mnt/outer/inner", read_only=True),
        Mount(str(tmp_path / "writable"), "/mnt/outer"),
        Tmpfs("/scratch", "v", size=1 << 20, mode=0o700),
    )
    files = (File("/etc/hosts", b"10.0.0.1 \xff\n"), File("/root/.ssh/id", b"secret", 0o600))
    script = """
    cat /mnt/outer/here /mnt/outer/inner/here
    echo new > /mnt/outer/new || exit 1
    echo new 2>/dev/null > /mnt/outer/inner/new && exit 2
    stat -c %a /scratch /root/.ssh/id
    head -c 2000000 /dev/zero 2>/dev/null > /scratch/big && exit 3
    tail -c 3 /etc/hosts | od -An -tx1
    """
    code, text = await box.shell("a", script, mounts=mounts, files=files)
    assert (code, text.split()[:4]) == (0, ["writable", "readable", "700", "600"])
    assert text.split()[-3:] == ["20", "ff", "0a"]
    assert (tmp_path / "writable" / "new").read_text() == "new\n"
    assert not (tmp_path / "readable" / "new").exists()


@in_box
async def test_a_memory_volume_belongs_to_its_pod(box: Box) -> None:
    """It survives a container, and the containers of the pod share it."""
    for pod in ("a", "b"):
        await box.pod(pod)
    volume = Tmpfs("/m", "v", size=1 << 20)
    assert await box.shell("a", "echo kept > /m/file", mounts=(volume,)) == (0, "")
    reader = Tmpfs("/other", "v", read_only=True)
    assert await box.shell("a", "cat /other/file; echo > /other/new", mounts=(reader,)) != (0, "kept\n")
    assert await box.shell("a", "cat /m/file; stat -f -c %T /m; ls /m", mounts=(volume,)) == (0, "kept\ntmpfs\nfile\n")
    assert await box.shell("a", "ls /m", mounts=(Tmpfs("/m", "w"),)) == (0, "")
    assert await box.shell("b", "ls /m", mounts=(volume,)) == (0, "")
    # An ordinary user has no other group to give it to.
    group = "7" if AS_ROOT else "0"
    script = "touch /m/x; stat -c %g /m/x"
    assert await box.shell("b", script, mounts=(Tmpfs("/m", "w", group=7),)) == (0, f"{group}\n")
    await box.sandbox.remove_pod("a")
    await box.pod("a")
    assert await box.shell("a", "ls /m", mounts=(volume,)) == (0, "")


@pytest.mark.parametrize("image", ["host", "image"])
@pytest.mark.needs("busybox")
@in_box
async def test_a_read_only_root(box: Box, tmp_path: Path, image: str) -> None:
    root = RootFs(None if image == "host" else str(_busybox_image(tmp_path / "image")), read_only=True)
    (tmp_path / "data").mkdir()
    tried = "for d in / /etc /bin /tmp /made/here; do touch $d/new 2>/dev/null && echo wrote to $d; done"
    script = f"{tried}; pwd; echo here > /data/new && echo x > /dev/null && echo end"
    await box.pod("a")
    mounts = (Mount(str(tmp_path / "data"), "/data"),)
    assert await box.shell("a", script, root=root, cwd="/made/here", mounts=mounts) == (0, "/made/here\nend\n")
    assert (tmp_path / "data" / "new").read_text() == "here\n"


@in_box
async def test_a_file_larger_than_a_packet(box: Box) -> None:
    await box.pod("a")
    files = (File("/big", os.urandom(700_000)),)
    assert await box.shell("a", "cksum < /big | cut -d' ' -f2", files=files) == (0, "700000\n")


@in_box
async def test_the_system_is_writable_and_each_container_has_its_own_copy(box: Box) -> None:
    await box.pod("a")
    script = (
        "for d in /etc /var /var/tmp /usr/local /opt /tmp /run /home /root /new; do mkdir -p $d/x/y || exit 1; done"
    )
    assert await box.shell("a", script) == (0, "")
    assert await box.shell("a", "ls -d /etc/x /home/x /new 2>/dev/null | wc -l") == (0, "0\n")
    assert not any("x" in os.listdir(path) for path in ("/etc", "/var", "/opt", "/home", "/run"))


@in_box
async def test_a_layer_on_disk_is_kept(box: Box, tmp_path: Path) -> None:
    upper = tmp_path / "kept" / "a"
    await box.pod("a")
    script = "echo result > /home/re; echo changed > /etc/motd-of-mine; mkdir /data; echo x > /data/x"
    assert await box.shell("a", script, root=RootFs(upper=str(upper))) == (0, "")
    assert (upper / "home" / "re").read_text() == "result\n"
    assert (upper / "etc" / "motd-of-mine").read_text() == "changed\n"
    assert (upper / "data" / "x").read_text() == "x\n"
    assert not (tmp_path / "kept" / "a.work").exists()


@pytest.mark.needs("busybox")
@in_box
async def test_an_image(box: Box, tmp_path: Path) -> None:
    """Links in an image lead into the image: neither files nor mounts land outside."""
    image = _busybox_image(tmp_path / "image")
    outside = tmp_path / "outside"
    outside.mkdir()
    (image / "data").symlink_to(outside)
    (image / "etc" / "hosts").symlink_to(f"../../../../../..{outside}/hosts")
    await box.pod("a")
    root = RootFs(image=str(image))
    script = "cat /etc/hosts; echo 1 > /bin/new; rm /etc/release; cat /data/file; ls /var 2>/dev/null; exit 4"
    files = (File("/etc/hosts", b"hosts of its own\n"), File("/data/file", b"file of its own\n"))
    code, text = await box.shell("a", script, root=root, files=files)
    assert (code, text) == (4, "hosts of its own\nfile of its own\n")
    code, text = await box.shell("a", "cat /etc/release; ls /bin/new", root=root)
    assert (code, text) == (1, "an image\nls: /bin/new: No such file or directory\n")
    assert list(outside.iterdir()) == []
    assert not (image / "bin" / "new").exists()
    assert (image / "etc" / "release").exists()


def _busybox_image(image: Path) -> Path:
    for name in ("bin", "etc"):
        (image / name).mkdir(parents=True)
    busybox = shutil.which("busybox") or ""
    shutil.copy(busybox, image / "bin" / "busybox")
    needed = subprocess.run(["ldd", busybox], capture_output=True, text=True, check=False).stdout
    for library in (word for word in needed.split() if word.startswith("/")):
        copy = image / library[1:]
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, copy)
    for name in ("sh", "cat", "ls", "rm", "echo"):
        (image / "bin" / name).symlink_to("busybox")
    (image / "etc" / "release").write_text("an image\n")
    return image


@in_box
async def test_exec_runs_inside_of_the_container(box: Box) -> None:
    await box.pod("pod-0")
    output = await box.start(box.spec("pod-0", "sh", "-c", "echo there > /tmp/file; echo up; sleep 1000", cwd="/opt"))
    assert await output.line() == "up"
    env = {"PATH": os.defpath, "MINE": "yes"}
    script = "cat /tmp/file; hostname; echo $MINE; pwd; cat /proc/1/comm; echo bad >&2; exit 6"
    code, text = await box.sandbox.exec(output.container, ["sh", "-c", script], env, PATIENCE)
    assert (code, text) == (6, b"there\npod-0\nyes\n/opt\nsh\nbad\n")
    assert await box.exec(output.container, "sh", "-c", "kill -9 $$") == (137, b"")
    # A process in the background does not delay the end.
    assert await box.exec(output.container, "sh", "-c", "sleep 1000 & echo up") == (0, b"up\n")
    with pytest.raises(StartError, match="nosuch: command not found"):
        await box.exec(output.container, "nosuch")
    await box.sandbox.signal(output.container, signal.SIGKILL)
    await output.ended()
    with pytest.raises(StartError) as caught:
        await box.exec(output.container, "true")
    assert caught.value.kind == GONE
    await box.sandbox.signal(output.container, signal.SIGTERM)


@in_box
async def test_a_cancelled_exec_is_killed_with_its_children(box: Box) -> None:
    await box.pod("a")
    output = await box.start(box.spec("a", "sh", "-c", "mkfifo /tmp/pipe; echo up; cat /tmp/pipe; echo released"))
    assert await output.line() == "up"
    script = "exec > /tmp/pipe; echo held; sleep 1000; true"
    running = asyncio.create_task(box.exec(output.container, "sh", "-c", script))
    assert await output.line() == "held"
    running.cancel()
    # The pipe is at its end when no process holds it.
    assert await output.line() == "released"
    with pytest.raises(TimeoutError):
        await box.sandbox.exec((await box.start(box.spec("a", "sleep", "9"))).container, ["/bin/sleep", "9"], {}, 0.1)


@in_box
async def test_cpu_affinity_and_open_files(box: Box) -> None:
    await box.pod("a")
    cpu = min(os.sched_getaffinity(0))
    code, text = await box.shell("a", "grep Cpus_allowed_list /proc/self/status; ulimit -Sn; ulimit -Hn", cpus=(cpu,))
    assert (code, text.split()[1:]) == (0, [str(cpu), *map(str, resource.getrlimit(resource.RLIMIT_NOFILE))])


@in_box
async def test_users(box: Box) -> None:
    """All users where root runs the sandbox; for an ordinary user only root, as which daemons drop their groups."""
    await box.pod("a")
    code, text = await box.shell("a", "id -u; id -g; id -G; touch /tmp/x", uid=1234, gid=2345, groups=(77,))
    expected = ["1234", "2345", "2345", "77"] if AS_ROOT else ["0", "0", "0"]
    assert (code, text.split()) == (0, expected)
    assert box.sandbox.all_users is AS_ROOT
    output = await box.python("a", "import os; os.setgroups([0]); os.setgid(0); os.setuid(0); print('dropped')")
    assert await output.rest() == "dropped\n"


@in_box
async def test_containers_of_a_pod_one_after_the_other(box: Box) -> None:
    """As init containers: they share the host name, but not the root."""
    await box.pod("pod-0")
    for code in (0, 3):
        assert await box.shell("pod-0", f"mkdir /x; hostname; exit {code}") == (code, "pod-0\n")


@in_box
async def test_containers_of_a_pod_side_by_side(box: Box) -> None:
    """As sidecars: they share localhost."""
    await box.pod("pod-0")
    server = await box.python(
        "pod-0", "import socket as s; l = s.create_server(('127.0.0.1', 5000)); print('up'); l.accept()"
    )
    assert await server.line() == "up"
    client = await box.python(
        "pod-0", "import socket; socket.create_connection(('127.0.0.1', 5000)); print('connected')"
    )
    assert await client.rest() == "connected\n"
    assert (await server.ended()).code == 0
