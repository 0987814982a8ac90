"""Where a local path leads: links of the user are followed, links where pods write are not."""

from __future__ import annotations

import datetime as dt
import io
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pumice.client.local.pods.local_paths import LinkRefusedError, located, writable_directories
from pumice.engines.local.sandbox.tree_stream import TreeReader, send
from pumice.store.files.run_store import RunStore, StoredRun
from scripts.made_runs import RunMaker, Story, Try


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pods write to `project` and to `shared`; the working directory is `project`."""
    for name in ("home", "big/in", "project/real", "project/latest", "shared", "victim"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "big" / "model").touch()
    links = {
        "home/data": "../big",
        "home/project": str(tmp_path / "project"),
        "home/model": "data/model",
        "home/none": "../big/none",
        "home/loop": "loop",
        "home/shared": "../shared",
        "project/out": str(tmp_path / "victim"),
        "project/file": str(tmp_path / "victim" / "file"),
        "project/real/d": str(tmp_path / "victim"),
        "project/current": "latest",
        "shared/out": "../victim",
    }
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def leads_to(top: Path, path: str) -> str:
    """Return the path of the copy of /srv/d, below `top`; the refused link, and where it leads, in brackets."""
    try:
        with located(Path(path.replace("TOP", str(top))), [top / "project", top / "shared", top / "missing"]) as found:
            copy = found.for_copy("/srv/d")
            return str((Path(f"/proc/self/fd/{copy.directory}").readlink() / copy.name).relative_to(top))
    except LinkRefusedError as error:
        return f"[{Path(error.link).relative_to(top)} -> {Path(error.real).relative_to(top)}]"
    except OSError as error:
        return type(error).__name__ if type(error) is not OSError else os.strerror(error.errno or 0)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("new", "project/new", id="a new name"),
        pytest.param("real/new", "project/real/new", id="a new name in a directory"),
        pytest.param("latest", "project/latest/d", id="into a directory"),
        pytest.param(".", "project/d", id="into the working directory"),
        pytest.param("..", "d", id="into the directory above"),
        pytest.param("latest/../real/../new/", "project/new", id="two dots"),
        pytest.param("none/new", "FileNotFoundError", id="a directory that is missing"),
        pytest.param("TOP/big/model", "big/model", id="over a file"),
        pytest.param("TOP/big/model/new", "NotADirectoryError", id="below a file"),
        pytest.param("TOP/home/data", "big/d", id="the user's link to a directory"),
        pytest.param("TOP/home/data/in/../new", "big/new", id="below the user's link"),
        pytest.param("TOP/home/model", "big/model", id="the user's link to a file, by way of another"),
        pytest.param("TOP/home/none", "big/none", id="the user's link to nothing"),
        pytest.param("TOP/home/project/real/new", "project/real/new", id="the user's link to where pods write"),
        pytest.param("TOP/home/loop", "Too many levels of symbolic links", id="a link to itself"),
        pytest.param("out", "[project/out -> victim]", id="a link to a directory"),
        pytest.param("out/", "[project/out -> victim]", id="with a slash"),
        pytest.param("TOP/project/out", "[project/out -> victim]", id="by the whole path"),
        pytest.param("file", "[project/file -> victim/file]", id="a link to a file, or to nothing"),
        pytest.param("out/a/b", "[project/out -> victim/a/b]", id="a link above the target"),
        pytest.param("real", "[project/real/d -> victim]", id="a link with the name of the copy"),
        pytest.param("real/../out", "[project/out -> victim]", id="a link behind two dots"),
        pytest.param("current", "[project/current -> project/latest]", id="a link that stays inside"),
        pytest.param("TOP/home/project/out", "[project/out -> victim]", id="a link behind the user's link"),
        pytest.param("TOP/home/shared/out", "[shared/out -> victim]", id="a link in another directory of pods"),
    ],
)
def test_where_a_path_leads(top: Path, path: str, expected: str) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    assert leads_to(top, path) == expected
    assert len(list(Path("/proc/self/fd").iterdir())) == before, "no descriptor stays open"


@pytest.mark.parametrize(
    ("source", "name"), [("/a/b/", "b"), ("/a/b/../c/.", "c"), ("/", "."), (".", "."), ("..", "."), ("/a/..", ".")]
)
def test_the_name_of_the_copy_in_a_directory(top: Path, source: str, name: str) -> None:
    with located(Path("/"), [top]) as found:
        assert found.for_copy(source) == found._replace(name=name)
        assert Path(f"/proc/self/fd/{found.directory}").readlink() == Path("/")


def swap_target(top: Path) -> None:
    (top / "project" / "latest").rename(top / "project" / "moved")
    (top / "project" / "latest").symlink_to(top / "victim")


def swap_parent(top: Path) -> None:
    (top / "project" / "real" / "d").unlink()
    (top / "project" / "real").rename(top / "project" / "moved")
    (top / "project" / "real").symlink_to(top / "victim")


def swap_name(top: Path) -> None:
    (top / "project" / "new").symlink_to(top / "victim")


@pytest.mark.parametrize(
    ("path", "swap", "written"),
    [
        pytest.param("latest", swap_target, "moved/d/file", id="the target"),
        pytest.param("real/new", swap_parent, "moved/new/file", id="the directory of the target"),
        pytest.param("new", swap_name, "", id="the name of the target"),
    ],
)
def test_a_link_that_is_put_into_the_path_later_has_no_effect(
    top: Path, path: str, swap: Callable[[Path], None], written: str
) -> None:
    (top / "source").mkdir()
    (top / "source" / "file").write_text("planted")
    stream = io.BytesIO()
    send(str(top / "source"), stream)
    stream.seek(0)
    with located(Path(path), [top / "project"]) as found:
        target = found.for_copy("/srv/d")
        swap(top)
        reader = TreeReader(stream, target.directory, target.name, lambda *_: None)
        if written:
            reader.read()
            assert (top / "project" / written).read_text() == "planted"
        else:
            with pytest.raises(OSError, match="Not a directory"):
                reader.read()
    assert list((top / "victim").iterdir()) == []


def test_of_a_source_the_file_is_read_that_was_found(top: Path) -> None:
    (top / "project" / "config").write_text("own")
    (top / "victim" / "key").write_text("secret")
    with located(Path("config"), [top / "project"]) as found:
        opened = found.opened()
        (top / "project" / "config").unlink()
        (top / "project" / "config").symlink_to(top / "victim" / "key")
        stream = io.BytesIO()
        send(f"/proc/self/fd/{opened}", stream)
        os.close(opened)
        opened = found.opened()
        with pytest.raises(OSError, match="neither a file nor a directory"):
            send(f"/proc/self/fd/{opened}", io.BytesIO())
        os.close(opened)
    assert b"own" in stream.getvalue()


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    maker = RunMaker(RunStore(tmp_path / "pumice"), tmp_path / "jobs", dt.datetime(2026, 11, 17, tzinfo=dt.UTC))
    return maker.make(Story("pytorch-job", [Try(1.0)], "Completed"))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param({}, ["/w", "/s/claims"], id="the working directory"),
        pytest.param({"workdir_read_only": True}, ["/s/claims"], id="not if it is read-only"),
        pytest.param({"share_workdir": False}, ["/s/claims"], id="not if it is not shared"),
        pytest.param(
            {"mounts": [{"path": "/a"}, {"path": "/b", "read_only": True}, {"path": "/c", "at": "/d"}]},
            ["/w", "/a", "/c", "/s/claims"],
            id="mounts",
        ),
        pytest.param({"mounts": "damaged"}, ["/"], id="everything, if the record is damaged"),
    ],
)
def test_what_the_pods_of_a_run_write_to(run: StoredRun, settings: dict[str, object], expected: list[str]) -> None:
    options = {"settings": {"workdir": "/w", "state": "/s", **settings}}
    found = writable_directories(StoredRun(run.directory, msgspec.structs.replace(run.record, options=options)))
    assert list(map(str, found)) == expected


def test_host_paths_that_a_container_may_write_to(run: StoredRun, tmp_path: Path) -> None:
    volumes = [{"name": name, "hostPath": {"path": str(tmp_path / name)}} for name in ("writable", "read", "unused")]
    mounts = [{"name": "writable", "mountPath": "/a"}, {"name": "read", "mountPath": "/b", "readOnly": True}]
    spec = {"containers": [{"name": "c", "image": "i", "volumeMounts": mounts}], "volumes": volumes}
    job = {"metadata": {"name": "x"}, "spec": {"tasks": [{"name": "t", "template": {"spec": spec}}]}}
    options = {"settings": {"workdir": "/w", "state": "/s"}}
    changed = msgspec.structs.replace(run.record, options=options, job=job)
    found = writable_directories(StoredRun(run.directory, changed))
    assert found == [Path("/w"), tmp_path / "writable", Path("/s/claims")]
