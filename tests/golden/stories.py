"""The recorded stories of runs that have ended."""

from __future__ import annotations

import shutil

from tests.golden.scene import MIXED, RESTART, TERMINATE, WAIT, Scene, Story, python, task

STEPS = "for step in 1 2 3; do echo step $step loss 0.$step; sleep 0.4; done"
TRAIN = """\
import os
import sys
import time

print("rank", os.environ.get("RANK", "0"), "of", os.environ.get("WORLD_SIZE", "1"), flush=True)
time.sleep(0.3)
if sys.argv[1:] == ["fail"]:
    print("warning: learning rate is high", file=sys.stderr, flush=True)
    raise ValueError("shapes (32, 10) and (16, 10) do not match")
time.sleep(60)
"""
SEGFAULT = "import ctypes, time; print('epoch 1', flush=True); time.sleep(0.3); ctypes.string_at(0)"
PEER = """\
import socket
import sys

peer = socket.create_connection((sys.argv[1], 9009))
print("connected to rank 0", flush=True)
if not peer.recv(1):
    raise ConnectionResetError("Connection reset by peer [10.77.0.10]")
"""
LEADER = """\
import socket
import time

server = socket.create_server(("", 9009))
peers = [server.accept()[0] for _ in range(2)]
print("epoch 1: no more data, returning", flush=True)
time.sleep(0.5)
"""
HOSTILE = """\
printf '\\033[31mred\\033[0m \\033]0;title\\007<script>alert(1)</script> \\342\\200\\256txt\\n'
printf 'progress 10%%\\rprogress 50%%\\rprogress 100%%\\n'
printf '<img src=x onerror=alert(1)> & "quotes"\\n' >&2
exit 2
"""
LONG = """\
import sys

for number in range(1, 2001):
    print(f"step {number:04d} loss {1 / number:.4f}", flush=number % 50 == 0)
    if number == 700:
        print("warning: gradient norm is 91.2", file=sys.stderr, flush=True)
sys.stdout.flush()
print("RuntimeError: no checkpoint directory", file=sys.stderr)
sys.exit(1)
"""
TRIAL = "echo trial $VC_TASK_INDEX; case $VC_TASK_INDEX in 7|40) echo diverged >&2; exit 9;; esac"
COUNT = 'n=$(cat tries 2>/dev/null || echo 0); echo $((n + 1)) > tries; echo "try $((n + 1))"; sleep 0.3'


def done(scene: Scene) -> None:
    limits = {"cpu": "500m", "memory": "64Mi"}
    script = f"echo starting >&2; {STEPS}; i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; sleep 5"
    tasks = [task("master", script, limits=limits), task("worker", script, 2, limits=limits)]
    scene.run("done", *tasks, minAvailable=3, plugins=MIXED)
    scene.run("done", *tasks, minAvailable=3, plugins=MIXED, flags=("--note", "the second one"))


def no_policy(scene: Scene) -> None:
    scene.run(
        "no-policy", task("master", STEPS), task("worker", f'{STEPS}; [ "$RANK" = 1 ] || exit 3', 2), plugins=MIXED
    )


def exception(scene: Scene) -> None:
    scene.script("train.py", TRAIN)
    tasks = [
        task("master", "", container=python("train.py")),
        task(
            "worker",
            "",
            2,
            container={"command": ["sh", "-c", 'exec python3 train.py $([ "$RANK" = 2 ] && echo fail)']},
        ),
    ]
    scene.run("exception", *tasks, minAvailable=3, plugins=MIXED, policies=TERMINATE)


def segfault(scene: Scene) -> None:
    tasks = [
        task("master", "echo up; sleep 60"),
        task("worker", "", container={"command": ["python3", "-c", SEGFAULT]}),
    ]
    scene.run("segfault", *tasks, plugins=MIXED, policies=TERMINATE)


def exit_3(scene: Scene) -> None:
    tasks = [task("master", "echo up; sleep 60"), task("worker", "echo no data >&2; exit 3")]
    scene.run("exit-3", *tasks, plugins=MIXED, policies=TERMINATE)


def oom(scene: Scene) -> None:
    script = "import time; print('loading', flush=True); time.sleep(3); x = b'x' * (1 << 28)"
    greedy = {"command": ["python3", "-c", script]}
    tasks = [task("master", "echo up; sleep 60"), task("worker", "", container=greedy, limits={"memory": "96Mi"})]
    scene.run("oom", *tasks, plugins=MIXED, policies=TERMINATE)


def abort_policy(scene: Scene) -> None:
    policies = [{"event": "PodFailed", "action": "AbortJob"}]
    run = scene("submit", scene.file("abort-policy", task("worker", "echo disk quota; exit 7"), policies=policies)).out
    scene("wait", run.strip(), code=None)


def complete_policy(scene: Scene) -> None:
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    tasks = [task("chief", STEPS, policies=policies), task("ps", "echo serving; sleep 60", 2)]
    scene.run("complete-policy", *tasks)


def restarts(scene: Scene) -> None:
    script = f"{COUNT}; [ $n = 2 ] || {{ echo lost the data server >&2; exit 5; }}"
    tasks = [task("master", "echo up; sleep 1"), task("worker", script)]
    scene.run("restarts", *tasks, plugins=MIXED, policies=RESTART, maxRetry=5)


def exhausted(scene: Scene) -> None:
    scene.run("exhausted", task("worker", f"{COUNT}; exit 5"), policies=RESTART, maxRetry=2)


def restart_pod(scene: Scene) -> None:
    policies = [{"exitCode": 42, "action": "RestartPod"}]
    script = f"{COUNT}; [ $n = 1 ] || exit 42"
    scene.run("restart-pod", task("steady", STEPS), task("worker", script, policies=policies))


def restart_task(scene: Scene) -> None:
    policies = [{"event": "PodFailed", "action": "RestartTask"}]
    script = f'[ "$VC_TASK_INDEX" = 0 ] && exec sh -c "{STEPS}"; {COUNT}; [ $n = 1 ] || exit 6'
    scene.run("restart-task", task("steady", STEPS), task("worker", script, 2, policies=policies), plugins={"env": []})


def leaves_early(scene: Scene) -> None:
    """One rank ends with code 0, and its peers crash because of it."""
    scene.script("leader.py", LEADER)
    scene.script(
        "peer.py",
        PEER.replace("peer = ", "import time\nwhile True:\n    try:\n        peer = ", 1).replace(
            "9009))\n", "9009))\n        break\n    except OSError:\n        time.sleep(0.1)\n", 1
        ),
    )
    tasks = [
        task("master", "", container=python("leader.py")),
        task("worker", "", 2, container={"command": ["python3", "peer.py", "leaves-early-master-0.leaves-early"]}),
    ]
    scene.run("leaves-early", *tasks, minAvailable=3, plugins=MIXED, policies=TERMINATE)


def timeout(scene: Scene) -> None:
    scene.run("timeout", task("worker", "echo up; sleep 60", 2), flags=("--timeout", "2s"))


def stopped(scene: Scene) -> None:
    run = scene.start("stopped", task("worker", "echo up; sleep 60", 2))
    scene.say(run, "up")
    scene("stop", run)


def resumed(scene: Scene) -> None:
    run = scene.start(
        "resumed", task("quick", "echo once"), task("worker", f"echo up; {WAIT}; echo done"), minAvailable=1
    )
    scene.until(lambda: scene.item(run)["pods"]["succeeded"] == 1)
    scene("suspend", run)
    scene.reach(run, "Aborted")
    scene("resume", run)
    scene.reach(run, "Running")
    scene.finish(run)


def scaled(scene: Scene) -> None:
    run = scene.start("scaled", task("worker", f"echo up; {WAIT}; echo done", limits={"cpu": "100m"}))
    scene.say(run, "up")
    scene("scale", run, "worker=3")
    scene.until(lambda: scene.item(run)["pods"]["running"] == 3)
    scene.finish(run)


def restarted(scene: Scene) -> None:
    run = scene.start("restarted", task("worker", f"echo up; {WAIT}; echo done", 2))
    scene.say(run, "up")
    scene("restart", run)
    scene.until(lambda: scene("logs", run).out.count("up") == 4)
    scene.finish(run)


def recovered(scene: Scene) -> None:
    run = scene.start(
        "recovered", task("quick", "echo once"), task("worker", f"echo up; {WAIT}; echo done"), minAvailable=1
    )
    scene.until(lambda: scene.item(run)["pods"]["succeeded"] == 1)
    scene.say(run, "up")
    scene.kill(run)
    scene.until(lambda: scene("logs", run).out.count("up") == 2)
    scene.finish(run)


def long_life(scene: Scene) -> None:
    """Scaled, restarted, suspended, resumed, killed and stopped: the times of all of it must be right."""
    run = scene.start(
        "long-life", task("worker", "echo up; sleep 60", limits={"cpu": "100m"}), flags=("--note", "lr=4")
    )
    scene.say(run, "up")
    scene("scale", run, "worker=2")
    scene.until(lambda: scene("logs", run).out.count("up") == 2)
    scene("restart", run)
    scene.until(lambda: scene("logs", run).out.count("up") == 4)
    scene("suspend", run)
    scene.reach(run, "Aborted")
    scene("resume", run)
    scene.until(lambda: scene("logs", run).out.count("up") == 6)
    scene.kill(run)
    scene.until(lambda: scene("logs", run).out.count("up") == 8)
    scene("stop", run)


def waited(scene: Scene) -> None:
    whole = {"cpu": "2"}
    first = scene.start("waited", task("worker", f"echo up; {WAIT}", limits=whole))
    second = scene("submit", "waited.yaml", "--note", "after the first", "--priority", "3").out.strip()
    scene.until(lambda: "holds" in scene.item(second)["message"])
    third = scene("submit", "waited.yaml", "--max-wait", "500ms").out.strip()
    scene("wait", third, code=None)
    scene.finish(first)
    scene.reach(second, "Running")
    scene.finish(second)


def deadline(scene: Scene) -> None:
    scene.run("deadline", task("worker", "echo up; sleep 60", 2), activeDeadlineSeconds=1)


def pod_deadline(scene: Scene) -> None:
    scene.run("pod-deadline", task("worker", "echo up; sleep 60", pod={"activeDeadlineSeconds": 1}), maxRetry=1)


def evicted(scene: Scene) -> None:
    script = "echo writing; [ $VC_TASK_INDEX = 0 ] || dd if=/dev/zero of=/d/x bs=1M count=3 2>/dev/null; sleep 60"
    mounts, volumes = [{"name": "d", "mountPath": "/d"}], [{"name": "d", "emptyDir": {"sizeLimit": "1Mi"}}]
    both = task("worker", script, 2, container={"volumeMounts": mounts}, pod={"volumes": volumes})
    scene.run("evicted", both, plugins={"env": []}, policies=[{"event": "PodEvicted", "action": "TerminateJob"}])


def many(scene: Scene) -> None:
    """As many pods as have a line each on the page."""
    scene.run("many", task("trial", TRIAL, 64), minAvailable=1, minSuccess=60, plugins={"env": []})


def crowd(scene: Scene) -> None:
    scene.run("crowd", task("trial", TRIAL, 96), minAvailable=1, minSuccess=90, plugins={"env": []})


def long_log(scene: Scene) -> None:
    scene.script("long.py", LONG)
    scene.run("long-log", task("worker", "", container=python("long.py")), maxRetry=1)


def image_missing(scene: Scene) -> None:
    image = scene.workspace.directory / "image"
    (image / "bin").mkdir(parents=True)
    shutil.copy("/bin/sh", image / "bin" / "sh")
    flags = ("--image", "train/base:2.4=image", "--hold")
    run = scene("submit", scene.file("image-missing", task("worker", "echo up")), *flags).out.strip()
    shutil.rmtree(image)
    scene("resume", run)
    scene("wait", run, code=None)


def program_missing(scene: Scene) -> None:
    scene.run(
        "program-missing", task("worker", "", container={"command": ["nemo-train", "--fast"]}), policies=TERMINATE
    )


def back_off(scene: Scene) -> None:
    script = f"{COUNT}; [ $n = 3 ] || {{ echo no server >&2; exit 4; }}; echo connected"
    scene.run("back-off", task("worker", script, pod={"restartPolicy": "OnFailure"}))


def init_container(scene: Scene) -> None:
    fetch = {"name": "fetch", "image": "curl:8", "command": ["sh", "-c", "echo 404 not found >&2; exit 22"]}
    scene.run(
        "init-container", task("worker", "echo never", pod={"initContainers": [fetch]}), policies=TERMINATE, maxRetry=1
    )


def noted(scene: Scene) -> None:
    flags = ("--note", "lr=0.1 <warm-up>", "--priority", "7", "--env", "LR=0.1")
    run = scene(
        "submit",
        scene.file(
            "noted", task("worker", "echo lr $LR"), metadata={"namespace": "research"}, priorityClassName="high"
        ),
        *flags,
    ).out.strip()
    scene("wait", run)


def mpi(scene: Scene) -> None:
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    script = "sort /etc/volcano/mpi.hostfile; echo rank 0 of 2 says hello"
    tasks = [
        task("launcher", script, policies=policies),
        task("worker", "echo sshd listens; sleep 60", 2, limits={"cpu": "1"}),
    ]
    scene.run("mpi", *tasks, minAvailable=3, plugins={"mpi": ["--master=launcher", "--worker=worker", "--port=22"]})


def hang_up(scene: Scene) -> None:
    shown = scene.on_terminal("hang-up", task("worker", "echo up; sleep 60"))
    shown.read_until("Running 1/1")
    shown.hang_up()


def interrupted(scene: Scene) -> None:
    shown = scene.on_terminal("interrupted", task("worker", "echo up; sleep 60", 2))
    shown.read_until("Running 2/2")
    shown.type(b"\x03")
    shown.read_to_end()


def hang_stopped(scene: Scene) -> None:
    """Silent for longer than a minute, then stopped."""
    run = scene.start(
        "hang-stopped", task("master", "echo up; sleep 600"), task("worker", "echo up; sleep 600"), plugins=MIXED
    )
    scene.until(lambda: "printed anything" in scene("history", run, "--events").out)
    scene("stop", run)


def fitted(scene: Scene) -> None:
    limits = {"cpu": "64", "memory": "900Gi", "nvidia.com/gpu": "8"}
    scene.run("fitted", task("worker", STEPS, limits=limits), flags=("--fit",))


def hostile(scene: Scene) -> None:
    scene.run("hostile", task("worker", HOSTILE), flags=("--note", "<b>\x1b[31m</b>"), policies=TERMINATE)


def damaged(scene: Scene) -> None:
    """Half of one entry of its journal is lost, and all of its status."""
    tasks = [task("master", "echo up; sleep 60"), task("worker", "echo no data >&2; exit 3")]
    scene.run("damaged", *tasks, plugins=MIXED, policies=TERMINATE)
    directory = scene.directory("damaged:1")
    lines = (directory / "journal.jsonl").read_bytes().splitlines(keepends=True)
    lines[6] = lines[6][: len(lines[6]) // 2] + b"\n"
    (directory / "journal.jsonl").write_bytes(b"".join(lines))
    (directory / "status.json").write_bytes(b"")


ENDED = tuple(
    Story(play.__name__.replace("_", "-"), play)
    for play in (
        done,
        no_policy,
        exception,
        segfault,
        exit_3,
        oom,
        abort_policy,
        complete_policy,
        restarts,
        exhausted,
        restart_pod,
        restart_task,
        leaves_early,
        timeout,
        stopped,
        resumed,
        scaled,
        restarted,
        recovered,
        long_life,
        waited,
        deadline,
        pod_deadline,
        evicted,
        many,
        long_log,
        image_missing,
        program_missing,
        back_off,
        init_container,
        noted,
        mpi,
        hang_up,
        interrupted,
        hang_stopped,
        fitted,
        hostile,
        damaged,
        crowd,
    )
)
