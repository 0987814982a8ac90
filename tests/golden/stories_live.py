"""The recorded stories of runs that run, wait, or lost their process."""

from __future__ import annotations

import json
import socket

from tests.golden.scene import MIXED, RESTART, WAIT, Scene, Story, task
from tests.golden.stories import COUNT

WHOLE = {"cpu": "2", "memory": "64Mi"}
SERVE = "echo serving; exec python3 -m http.server 6006"


def running(scene: Scene) -> None:
    limits = {"cpu": "100m", "memory": "64Mi"}
    run = scene.start(
        "running",
        task("master", f"echo up; {WAIT}"),
        task("worker", f"echo up; {WAIT}", 2, limits=limits),
        plugins=MIXED,
    )
    scene.until(lambda: scene("logs", run).out.count("up") == 3)
    # A sample that is in the store, too.
    samples = scene.directory(run) / "samples.bin"
    scene.until(lambda: samples.exists() and samples.stat().st_size > 300)
    scene.copy()


def hang(scene: Scene) -> None:
    """No pod has printed anything for a minute."""
    run = scene.start("hang", task("master", "echo up; sleep 600"), task("worker", "echo up; sleep 600"), plugins=MIXED)
    scene.until(lambda: "printed anything" in scene("history", run, "--events").out)
    scene.copy()


def published(scene: Scene) -> None:
    run = scene.start("published", task("tb", SERVE), flags=("--publish", "tb-0:6006"))
    scene.say(run, "serving")
    scene.until(lambda: "PortPublished" in scene("history", run, "--events").out)
    scene.copy()


def depends(scene: Scene) -> None:
    after = {"name": ["prepare"], "condition": "Completed"}
    run = scene.start(
        "depends",
        task("prepare", f"echo downloading; {WAIT}"),
        task("worker", "echo up", 2, dependsOn=after),
        minAvailable=1,
    )
    scene.say(run, "downloading")
    scene.copy()


def crash_loop(scene: Scene) -> None:
    """A container restarts again and again, with a longer and longer pause."""
    script = f"{COUNT}; echo no server >&2; exit 4"
    tasks = [task("steady", f"echo up; {WAIT}"), task("worker", script, pod={"restartPolicy": "OnFailure"})]
    run = scene.start("crash-loop", *tasks, minAvailable=1)
    scene.say(run, "try 4")
    scene.until(lambda: scene("history", run, "--events").out.count("ContainerRestarted") >= 4)
    scene.copy()


def second_attempt(scene: Scene) -> None:
    script = f"{COUNT}; [ $n = 0 ] && {{ echo lost the data server >&2; exit 5; }}; {WAIT}"
    run = scene.start("second-attempt", task("worker", script), policies=RESTART)
    scene.say(run, "try 2")
    scene.until(lambda: scene.item(run)["pods"]["running"] == 1 and scene.item(run)["attempt"] == 2)
    scene.copy()


def queue(scene: Scene) -> None:
    """One run has both CPUs, one waits for them, and one waits for its turn."""
    holder = scene.start("holder", task("worker", f"echo up; {WAIT}", limits=WHOLE), flags=("--timeout", "2h"))
    scene.say(holder, "up")
    queued = scene("submit", scene.file("queued", task("worker", "true", 2, limits={"cpu": "1"})), "--note", "lr=4").out
    scene.until(lambda: "holds" in scene.item(queued.strip())["message"])
    behind = scene("submit", scene.file("behind", task("worker", "true", limits=WHOLE)), "--priority", "-1").out
    scene.until(lambda: bool(scene.item(behind.strip())["message"]))
    scene.copy()


def detached(scene: Scene) -> None:
    """A foreground run that was detached, suspended and resumed."""
    shown = scene.on_terminal("detached", task("worker", f"echo up; {WAIT}"))
    shown.read_until("Running 1/1")
    shown.type(b"\x1c")
    shown.read_to_end()
    scene("suspend", "detached:1")
    scene.reach("detached:1", "Aborted")
    scene("resume", "detached:1")
    scene.until(lambda: scene.item("detached:1")["pods"]["running"] == 1)
    scene.copy()


def held(scene: Scene) -> None:
    scene("submit", scene.file("held", task("worker", "echo up", 2)), "--hold", "--note", "after the meeting")
    scene.copy()


def suspended(scene: Scene) -> None:
    run = scene.start("suspended", task("quick", "echo once"), task("worker", f"echo up; {WAIT}"), minAvailable=1)
    scene.until(lambda: scene.item(run)["pods"]["succeeded"] == 1)
    scene("suspend", run)
    scene.reach(run, "Aborted")
    scene.until(lambda: not json.loads(scene("ps", "--json", "suspended").out)["pods"]["running"])
    scene.copy()


def secrets(scene: Scene) -> None:
    scene.workspace.environ["API_KEY"] = "k-123"
    run = scene.start("secrets", task("worker", f"echo up; {WAIT}"), flags=("--env", "API_KEY"))
    scene.say(run, "up")
    scene.lose_secrets(run)
    scene("resume", run, code=1)
    scene.until(lambda: "--env API_KEY" in scene("ps").out)
    scene.copy()


def lost(scene: Scene) -> None:
    """Its process was killed, and no service recovers it."""
    run = scene.start("lost", task("worker", f"echo up; {WAIT}"))
    scene.say(run, "up")
    scene("service", "stop")
    scene.kill(run)
    scene.copy()


def elsewhere(scene: Scene) -> None:
    """A run of another machine, on a home directory that both share."""
    run = scene.start("elsewhere", task("worker", f"echo up; {WAIT}"))
    scene.say(run, "up")
    _edit(scene, run, host="other-box")
    scene.copy()
    # It is stopped from here.
    _edit(scene, run, host=socket.gethostname())


def newer(scene: Scene) -> None:
    """A run that a newer Pumice has written."""
    scene.run("newer", task("worker", "echo up"))
    _edit(scene, "newer:1", format=99, version="9.0.0")
    scene.copy()


def unreadable(scene: Scene) -> None:
    scene.run("unreadable", task("worker", "echo up"))
    record = scene.directory("unreadable:1") / "run.json"
    record.write_bytes(record.read_bytes()[:300])
    scene.copy()


def _edit(scene: Scene, run: str, **fields: object) -> None:
    record = scene.directory(run) / "run.json"
    found = json.loads(record.read_bytes())
    record.write_text(json.dumps({**found, **fields}, separators=(",", ":")) + "\n")


LIVE = tuple(
    Story(play.__name__.replace("_", "-"), play, live=True)
    for play in (
        running,
        hang,
        published,
        depends,
        crash_loop,
        second_attempt,
        queue,
        detached,
        held,
        suspended,
        secrets,
        lost,
        elsewhere,
        newer,
        unreadable,
    )
)
