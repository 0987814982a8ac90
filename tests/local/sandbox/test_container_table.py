"""One container: its output, its end, its file system, and what happens when it cannot start."""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.client import Ended
from pumice.engines.local.sandbox.sandbox_errors import StartError
from pumice.engines.local.sandbox.specs import File, Mount, RootFs, Tmpfs
from tests.local.sandbox.boxes import AS_ROOT, Box, box, in_box, python_mounts, run

pytestmark = pytest.mark.usefixtures("namespaces")


@in_box
async def test_output_and_exit_code(box: Box) -> None:
    await box.pod("a")
    assert await box.shell("a", "echo out; echo err >&2; exit 3") == (3, "out\nerr\n")


@in_box
async def test_stdout_and_stderr_are_two_streams(box: Box) -> None:
    await box.pod("a")
    (out_read, out_write), (err_read, err_write) = os.pipe(), os.pipe()
    spec = box.spec("a", "sh", "-c", "echo out; echo err >&2")
    await box.sandbox.start_container(spec, out_write, err_write)
    assert await box.sandbox.ended(spec.id) == Ended(0, 0, oom=False)
    assert (os.read(out_read, 99), os.read(err_read, 99)) == (b"out\n", b"err\n")
    for descriptor in (out_read, out_write, err_read, err_write):
        os.close(descriptor)


@in_box
async def test_the_command_is_process_1_under_its_own_name(box: Box) -> None:
    await box.pod("pod-0")
    script = "echo $$; hostname; cat /proc/sys/kernel/hostname; echo $GREETING; pwd; id -u"
    code, text = await box.shell("pod-0", script, env={"GREETING": "hello", "PATH": os.defpath}, cwd="/made/for/it")
    assert (code, text.split("\n")[:-1]) == (0, ["1", "pod-0", "pod-0", "hello", "/made/for/it", "0"])


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        pytest.param(signal.SIGKILL, Ended(137, 9, oom=False), id="killed"),
        pytest.param(signal.SIGUSR1, Ended(7, 0, oom=False), id="handled"),
    ],
)
def test_a_signal(tmp_path: Path, number: signal.Signals, expected: Ended) -> None:
    async def story() -> None:
        async with box(tmp_path) as made:
            await made.pod("a")
            output = await made.start(
                made.spec("a", "sh", "-c", "trap 'exit 7' USR1; echo up; while :; do sleep .05; done")
            )
            assert await output.line() == "up"
            await made.sandbox.signal(output.container, number)
            assert await output.ended() == expected

    run(story())


@in_box
async def test_killed_by_its_own_signal(box: Box) -> None:
    await box.pod("a")
    # The first process of a pid namespace cannot signal itself to death, a shell tells of its child: 128 + 11.
    assert (await box.shell("a", "sh -c 'kill -SEGV $$'; exit $?"))[0] == 139


@in_box
async def test_what_it_leaves_behind_dies_with_it(box: Box) -> None:
    await box.pod("a")
    output = await box.start(box.spec("a", "sh", "-c", "sleep 1000 & echo started"))
    assert await output.line() == "started"
    assert (await output.ended()).code == 0
    # The pipe is at its end only when nobody holds the other: the sleeper is gone.
    assert await output.rest() == ""


def test_mounts_files_and_memory(tmp_path: Path) -> None:
    for name in ("writable", "readable"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "here").write_text(f"{name}\n")

    async def story() -> None:
        async with box(tmp_path / "stage") as made:
            await made.pod("a")
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
            code, text = await made.shell("a", script, mounts=mounts, files=files)
            assert (code, text.split()[:4]) == (0, ["writable", "readable", "700", "600"])
            assert text.split()[-3:] == ["20", "ff", "0a"]

    run(story())
    assert (tmp_path / "writable" / "new").read_text() == "new\n"
    assert not (tmp_path / "readable" / "new").exists()


@in_box
async def test_memory_belongs_to_the_pod(box: Box) -> None:
    """It outlives a container, is shared with the others of the pod, and with no other pod."""
    for pod in ("a", "b"):
        await box.pod(pod)
    volume = Tmpfs("/m", "v", size=1 << 20)
    assert await box.shell("a", "echo kept > /m/file", mounts=(volume,)) == (0, "")
    reader = Tmpfs("/other", "v", read_only=True)
    assert await box.shell("a", "cat /other/file; echo > /other/new", mounts=(reader,)) != (0, "kept\n")
    assert await box.shell("a", "cat /m/file; stat -f -c %T /m; ls /m", mounts=(volume,)) == (0, "kept\ntmpfs\nfile\n")
    assert await box.shell("a", "ls /m", mounts=(Tmpfs("/m", "w"),)) == (0, "")
    assert await box.shell("b", "ls /m", mounts=(volume,)) == (0, "")
    # Where there is but one user, there is no other group to give it to.
    group = "7" if AS_ROOT else "0"
    script = "touch /m/x; stat -c %g /m/x"
    assert await box.shell("b", script, mounts=(Tmpfs("/m", "w", group=7),)) == (0, f"{group}\n")
    await box.sandbox.remove_pod("a")
    await box.pod("a")
    assert await box.shell("a", "ls /m", mounts=(volume,)) == (0, "")


@pytest.mark.parametrize("image", ["host", "image"])
@pytest.mark.needs("busybox")
def test_a_root_that_is_read_only(tmp_path: Path, image: str) -> None:
    root = RootFs(None if image == "host" else str(_busybox_image(tmp_path / "image")), read_only=True)
    (tmp_path / "data").mkdir()
    tried = "for d in / /etc /bin /tmp /made/here; do touch $d/new 2>/dev/null && echo wrote to $d; done"
    script = f"{tried}; pwd; echo here > /data/new && echo x > /dev/null && echo end"

    async def story() -> None:
        async with box(tmp_path / "stage") as made:
            await made.pod("a")
            mounts = (Mount(str(tmp_path / "data"), "/data"),)
            assert await made.shell("a", script, root=root, cwd="/made/here", mounts=mounts) == (0, "/made/here\nend\n")

    run(story())
    assert (tmp_path / "data" / "new").read_text() == "here\n"


@in_box
async def test_large_files_fit_through(box: Box) -> None:
    await box.pod("a")
    data = os.urandom(700_000)
    code, text = await box.shell("a", "cksum < /big | cut -d' ' -f2", files=(File("/big", data),))
    assert (code, text) == (0, "700000\n")


@in_box
async def test_the_system_is_writable_and_each_container_has_its_own_copy(box: Box) -> None:
    await box.pod("a")
    script = (
        "for d in /etc /var /var/tmp /usr/local /opt /tmp /run /home /root /new; do mkdir -p $d/x/y || exit 1; done"
    )
    assert await box.shell("a", script) == (0, "")
    assert await box.shell("a", "ls -d /etc/x /home/x /new 2>/dev/null | wc -l") == (0, "0\n")
    assert not any("x" in os.listdir(path) for path in ("/etc", "/var", "/opt", "/home", "/run"))


def test_a_layer_on_disk_is_kept(tmp_path: Path) -> None:
    upper = tmp_path / "kept" / "a"

    async def story() -> None:
        async with box(tmp_path / "stage") as made:
            await made.pod("a")
            script = "echo result > /home/re; echo changed > /etc/motd-of-mine; mkdir /data; echo x > /data/x"
            assert await made.shell("a", script, root=RootFs(upper=str(upper))) == (0, "")

    run(story())
    assert (upper / "home" / "re").read_text() == "result\n"
    assert (upper / "etc" / "motd-of-mine").read_text() == "changed\n"
    assert (upper / "data" / "x").read_text() == "x\n"
    assert not (tmp_path / "kept" / "a.work").exists()


@pytest.mark.needs("busybox")
def test_an_image_of_its_own(tmp_path: Path) -> None:
    image = _busybox_image(tmp_path / "image")
    # Links of an image must lead nowhere but into the image: neither files nor mounts may land outside.
    outside = tmp_path / "outside"
    outside.mkdir()
    (image / "data").symlink_to(outside)
    (image / "etc" / "hosts").symlink_to(f"../../../../../..{outside}/hosts")

    async def story() -> None:
        async with box(tmp_path / "stage") as made:
            await made.pod("a")
            root = RootFs(image=str(image))
            script = "cat /etc/hosts; echo 1 > /bin/new; rm /etc/release; cat /data/file; ls /var 2>/dev/null; exit 4"
            files = (File("/etc/hosts", b"hosts of its own\n"), File("/data/file", b"file of its own\n"))
            code, text = await made.shell("a", script, root=root, files=files)
            assert (code, text) == (4, "hosts of its own\nfile of its own\n")
            assert await made.shell("a", "cat /etc/release; ls /bin/new", root=root) == (
                1,
                "an image\nls: /bin/new: No such file or directory\n",
            )

    run(story())
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
async def test_exec_is_inside_of_the_container(box: Box) -> None:
    await box.pod("pod-0")
    output = await box.start(box.spec("pod-0", "sh", "-c", "echo there > /tmp/file; echo up; sleep 1000", cwd="/opt"))
    assert await output.line() == "up"
    env = {"PATH": os.defpath, "MINE": "yes"}
    script = "cat /tmp/file; hostname; echo $MINE; pwd; cat /proc/1/comm; echo bad >&2; exit 6"
    code, text = await box.sandbox.exec(output.container, ["sh", "-c", script], env, 10)
    assert (code, text) == (6, b"there\npod-0\nyes\n/opt\nsh\nbad\n")
    assert await box.sandbox.exec(output.container, ["sh", "-c", "kill -9 $$"], env, 10) == (137, b"")
    with pytest.raises(StartError, match="nosuch: command not found"):
        await box.sandbox.exec(output.container, ["nosuch"], env, 10)
    with pytest.raises(TimeoutError):
        await box.sandbox.exec(output.container, ["sh", "-c", "sleep 1000; true"], env, 0.2)
    code, text = await box.sandbox.exec(
        output.container, ["sh", "-c", "grep -l sleep /proc/[0-9]*/comm | wc -l"], env, 10
    )
    assert int(text) == 1


@in_box
async def test_exec_after_the_end(box: Box) -> None:
    await box.pod("a")
    output = await box.start(box.spec("a", "true"))
    await output.ended()
    with pytest.raises(StartError) as caught:
        await box.sandbox.exec(output.container, ["true"], {}, 10)
    assert caught.value.kind == "gone"
    await box.sandbox.signal(output.container, signal.SIGTERM)


@in_box
async def test_a_process_in_the_background_of_exec_does_not_hold_it_up(box: Box) -> None:
    await box.pod("a")
    output = await box.start(box.spec("a", "sleep", "1000"))
    env = {"PATH": os.defpath}
    async with asyncio.timeout(10):
        assert await box.sandbox.exec(output.container, ["sh", "-c", "sleep 1000 & echo said"], env, 20) == (
            0,
            b"said\n",
        )


@in_box
async def test_affinity_and_limits(box: Box) -> None:
    await box.pod("a")
    cpu = min(os.sched_getaffinity(0))
    code, text = await box.shell("a", "grep Cpus_allowed_list /proc/self/status; ulimit -Sn; ulimit -Hn", cpus=(cpu,))
    assert (code, text.split()[1:]) == (0, [str(cpu), *map(str, resource.getrlimit(resource.RLIMIT_NOFILE))])


@in_box
async def test_a_user_of_its_own(box: Box) -> None:
    """Every user where root runs the sandbox; where an ordinary user does there is one only, and root is its name."""
    await box.pod("a")
    code, text = await box.shell("a", "id -u; id -g; id -G; touch /tmp/x", uid=1234, gid=2345, groups=(77,))
    expected = ["1234", "2345", "2345", "77"] if AS_ROOT else ["0", "0", "0"]
    assert (code, text.split()) == (0, expected)
    assert box.sandbox.all_users is AS_ROOT


@in_box
async def test_what_daemons_do_to_drop_groups_works(box: Box) -> None:
    await box.pod("a")
    program = "import os; os.setgroups([0]); os.setgid(0); os.setuid(0); print('dropped')"
    ended, text = await box.run(box.spec("a", sys.executable, "-I", "-S", "-c", program, mounts=python_mounts()))
    assert (ended.code, text) == (0, "dropped\n")


@in_box
async def test_one_after_the_other_in_one_pod(box: Box) -> None:
    """As init containers run: the same network and names, another root."""
    await box.pod("pod-0")
    for code in (0, 3):
        assert await box.shell("pod-0", f"touch /x; hostname; exit {code}") == (code, "pod-0\n")


@in_box
async def test_beside_each_other_in_one_pod(box: Box) -> None:
    """As sidecars run: localhost is shared, processes and files are not."""
    await box.pod("pod-0")
    server = "import socket as s; l = s.create_server(('127.0.0.1', 5000)); print('up', flush=True); l.accept()"
    output = await box.start(box.spec("pod-0", sys.executable, "-u", "-I", "-c", server, mounts=python_mounts()))
    assert await output.line() == "up"
    client = "import socket; socket.create_connection(('127.0.0.1', 5000)); print('connected')"
    ended, text = await box.run(box.spec("pod-0", sys.executable, "-I", "-c", client, mounts=python_mounts()))
    assert (ended.code, text) == (0, "connected\n")
    assert (await output.ended()).code == 0


@in_box
async def test_a_shared_pid_namespace(box: Box) -> None:
    await box.pod("pod-0")
    first = await box.start(box.spec("pod-0", "sh", "-c", "while :; do sleep 1; done"))
    second = await box.start(
        box.spec("pod-0", "sh", "-c", "cat /proc/1/comm; sleep 1234 & sleep 5678", share_pid_with=first.container)
    )
    assert await second.line() == "sh"
    await box.sandbox.signal(second.container, signal.SIGKILL)
    assert (await second.ended()).signal == signal.SIGKILL
    # The other's namespace lives on, but nothing of the killed one in it: the pipe has no writer left.
    assert await second.rest() == ""
    code, _ = await box.sandbox.exec(first.container, ["true"], {"PATH": os.defpath}, 10)
    assert code == 0
