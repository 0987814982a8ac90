"""Consent: by flag, by an answer that is remembered, and what neither can allow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pumice.engines.local.host_access.consent import check_consent, is_ordinary, remember_consent
from pumice.engines.local.live_outcome import directory_with_missed_file, unshared_path
from pumice.store.run_errors import Denied
from pumice.store.settings import ConsentError, ExtraMount, HostAccess, Settings


def pod(path: Path, *, read_only: bool = False) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": "/v", "readOnly": read_only}]
    volumes = [{"name": "v", "hostPath": {"path": str(path)}}]
    return {"spec": {"volumes": volumes, "containers": [{"name": "c", "volumeMounts": mounts}]}}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("home/.ssh", "home/train", "home/state", "home/config", "data"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path / "home"


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(workdir=home / "train", state=home / "state", config=home / "config")


@pytest.mark.parametrize(
    ("path", "allowed", "good"),
    [
        pytest.param("data", [], True, id="data"),
        pytest.param("home/train/out", [], True, id="the working directory"),
        pytest.param("home", [], False, id="home"),
        pytest.param("home", ["home"], True, id="home with consent"),
        pytest.param("home/pictures", ["home"], True, id="by a prefix"),
        pytest.param("home/pictures", ["home/pic"], False, id="by a part of a name"),
        pytest.param("home/.ssh", ["home"], False, id="credentials are not included"),
        pytest.param("home/.ssh", ["home/.ssh"], True, id="credentials that are named"),
    ],
)
def test_consent_by_flag(path: str, allowed: list[str], home: Path, settings: Settings, *, good: bool) -> None:
    settings = replace(settings, allowed=tuple(home.parent / each for each in allowed))
    wanted = pod(home.parent / path)
    if good:
        assert [each.path for each in check_consent(settings, [wanted], {"HOME": str(home)})] == [home.parent / path]
    else:
        with pytest.raises(ConsentError, match="needs your consent"):
            check_consent(settings, [wanted], {"HOME": str(home)})


def test_an_answer_is_remembered_by_project_path_and_mode(home: Path, settings: Settings, tmp_path: Path) -> None:
    environ = {"HOME": str(home)}
    reading, writing, other = pod(home, read_only=True), pod(home), pod(home / "pictures", read_only=True)
    with pytest.raises(ConsentError) as error:
        check_consent(settings, [reading], environ)
    remember_consent(error.value, settings)
    assert check_consent(settings, [reading], environ)
    for refused, where in ((writing, settings), (other, settings), (reading, replace(settings, project=tmp_path))):
        with pytest.raises(ConsentError):
            check_consent(where, [refused], environ)
    with pytest.raises(ConsentError) as error:
        check_consent(settings, [writing], environ)
    remember_consent(error.value, settings)
    # Who may write may read.
    assert check_consent(settings, [reading, writing], environ)
    assert (settings.state / "consent.json").stat().st_mode & 0o777 == 0o600
    (settings.state / "consent.json").write_text("{broken")
    with pytest.raises(ConsentError):
        check_consent(settings, [reading], environ)


@pytest.mark.parametrize("name", ["state", "config/x"])
def test_own_directories_are_never_mounted(name: str, home: Path, settings: Settings) -> None:
    settings = replace(settings, allowed=(home / name,))
    with pytest.raises(Denied, match="Pumice keeps its own files there"):
        check_consent(settings, [pod(home / name)], {"HOME": str(home)})


def test_a_pumice_toml_needs_consent_as_a_job_does(home: Path, settings: Settings) -> None:
    access = HostAccess(home / "x", read_only=True, origin="pumice.toml [mounts]")
    # The mount itself does not make the path visible.
    settings = replace(settings, host_accesses=(access,), mounts=(ExtraMount(home / "x", read_only=True),))
    with pytest.raises(ConsentError, match=r"\(read-only, pumice.toml \[mounts\]\): is in the home directory"):
        check_consent(settings, [], {"HOME": str(home)})
    assert check_consent(replace(settings, allowed=(home,)), [], {"HOME": str(home)}) == [access]


def test_is_ordinary(home: Path) -> None:
    names = ("data", "home/train", "home", "home/.ssh", ".")
    found = [is_ordinary(home.parent / name, {"HOME": str(home)}) for name in names]
    assert found == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("FileNotFoundError: No such file or directory: 'DATA/a b'", "DATA/a b", id="Python"),
        pytest.param("cat: DATA/a b: No such file or directory", "DATA/a", id="a shell"),
        pytest.param("cannot open DATA.", "DATA", id="the end of a sentence"),
        pytest.param("no DATA/none here", "", id="it does not exist here either"),
        pytest.param("HOME/work: is a directory", "", id="the working directory"),
        pytest.param("HOME/.ssh/id: missing", "", id="credentials"),
        pytest.param("DATA/in: bad format", "", id="in a volume of the container"),
        pytest.param("/usr/bin: a directory", "", id="what pods see"),
        pytest.param("/proc/1: gone; /dev/null", "", id="what pods have themselves"),
        pytest.param("no path", "", id="no path"),
    ],
)
def test_unshared_path(line: str, expected: str, home: Path, settings: Settings) -> None:
    data = home.parent / "data"
    for name in ("a b", "a", "in"):
        (data / name).write_text("")
    (home / ".ssh" / "id").write_text("")

    def real(text: str) -> str:
        return text.replace("DATA", str(data)).replace("HOME", str(home))

    assert unshared_path(real(line), settings, [str(data / "in")], {"HOME": str(home)}) == real(expected)


@pytest.mark.parametrize(
    ("line", "cwd", "found"),
    [
        pytest.param("python3: can't open file '/ws/app.py': [Errno 2] No such file", "/ws", "a b", id="a program"),
        pytest.param("FileNotFoundError: '/ws/conf/a.toml'", "/ws", "second", id="in a directory"),
        pytest.param("python3: can't open file '//app.py'", "/", "a b", id="in the root directory"),
        pytest.param("cannot open /ws/app.py.", "/ws", "a b", id="without quotes"),
        pytest.param("FileNotFoundError: '/ws/other.py'", "/ws", None, id="nowhere"),
        pytest.param("FileNotFoundError: '/elsewhere/app.py'", "/ws", None, id="of another directory"),
        pytest.param("cannot change to /ws", "/ws", None, id="the directory itself"),
        pytest.param("app.py failed", "/ws", None, id="no path"),
    ],
)
def test_directory_with_missed_file(line: str, cwd: str, found: str | None, tmp_path: Path) -> None:
    for name in ("a b/app.py", "second/app.py", "second/conf/a.toml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    directories = [tmp_path / "a b", tmp_path / "second"]
    assert directory_with_missed_file(line, cwd, directories) == (tmp_path / found if found else None)


def test_a_quoted_path_with_a_space_is_one_path(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "data").mkdir(exist_ok=True)
    line = f"no such file: '{tmp_path}/data set/x'"
    assert unshared_path(line, settings, [], {"HOME": str(tmp_path / "home")}) == ""
