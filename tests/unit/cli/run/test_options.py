"""The flags of `pumice run`, and the pumice.toml beside the job file."""

from __future__ import annotations

import argparse
import pwd
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from pumice.cli.run import options
from pumice.cli.run.options import read_options, typed_again
from pumice.client.run_options.row import Group
from pumice.model.problem import FLAGS, Option
from pumice.store.files.state_directory import state_directory
from pumice.store.options import Kill, Publish, RunOptions
from pumice.store.run_errors import InvalidOption
from pumice.store.settings import ExtraMount

# The system refuses to look for such a path.
LONG = "x" * 300


def _parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    options.add_arguments(parser)
    return parser.parse_args(["job.yaml", *words])


def _read(*words: str) -> RunOptions:
    return read_options(_parsed(*words))


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("data", "image", "a:b"):
        (tmp_path / name).mkdir()
    (tmp_path / "tool").write_text("#!/bin/sh\n")


def test_the_help_has_groups_and_every_flag_in_one_of_them() -> None:
    parser = argparse.ArgumentParser()
    options.add_arguments(parser)
    before, *groups = re.split(
        r"^([a-zA-Z ]+):$", parser.format_help().partition("positional arguments:")[2], flags=re.MULTILINE
    )
    text = dict(zip(groups[::2], groups[1::2], strict=True))
    assert re.findall(r"^  -", before, re.MULTILINE) == []
    assert list(text) == ["options", *Group]
    assert re.findall(r"^  -\S+", text["options"], re.MULTILINE) == ["  -h,"]
    for group, flag in ((Group.PROGRAM, "--detach"), (Group.IMAGES, "--python"), (Group.SHOWN, "--json")):
        assert f"{flag} " in text[group]


def test_good_flags(tmp_path: Path) -> None:
    options = _read(
        *("--scale", "w=0", "--kill", "w-0@1m30s", "--publish", "w-1:80", "--timeout", "10m", "--env", "A=b=c"),
        *("--entrypoint", "i=sh -c 'a b'", "--image", "i=image", "--mount", "data:ro", "--mount", "a:b", "--keep"),
    )
    assert options.scale == {"w": 0}
    assert options.kills == (Kill("w-0", 90.0),)
    assert options.publish == (Publish("w-1", 80),)
    assert options.timeout == 600
    settings = options.settings
    assert settings.env == {"A": "b=c"}
    assert settings.entrypoints == {"i": ("sh", "-c", "a b")}
    assert settings.images == {"i": tmp_path / "image"}
    assert settings.mounts == (ExtraMount(tmp_path / "data", read_only=True), ExtraMount(tmp_path / "a:b"))
    assert settings.keep


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("w-1:80", Publish("w-1", 80), id="pod and port"),
        pytest.param("w-1:80:8123", Publish("w-1", 80, 8123), id="pod, port and local port"),
        pytest.param("80", Publish("", 80), id="port"),
        pytest.param("80:8123", Publish("", 80, 8123), id="port and local port"),
    ],
)
def test_published_ports(text: str, expected: Publish) -> None:
    assert _read("--publish", text).publish == (expected,)
    assert str(expected) == text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--scale", "w"], "--scale: w: must be TASK=N", id="scale without a number"),
        pytest.param(["--scale", "w=-1"], "--scale: w=-1: N must be a number, 0 or more", id="scale below 0"),
        pytest.param(["--scale", "w=two"], "--scale: w=two: N must be a number, 0 or more", id="scale in words"),
        pytest.param(["--scale", "w=٣"], "--scale: w=٣: N must be a number, 0 or more", id="digits of others"),
        pytest.param(["--scale", "=1"], "--scale: =1: must be TASK=N", id="scale without a task"),
        pytest.param(["--kill", "w-0"], "--kill: w-0: must be TASK-INDEX@TIME, such as worker-0@30s", id="kill"),
        pytest.param(["--kill", "w-0@x"], "--kill: w-0: x: must be a duration such as 10s", id="kill at no time"),
        pytest.param(["--kill", "w-0@-1s"], "--kill: w-0: -1s: must be 0 or more", id="kill before the start"),
        pytest.param(
            ["--publish", "w-0"], "--publish: w-0: must be TASK-INDEX:PORT[:LOCAL]", id="publish without a port"
        ),
        pytest.param(["--publish", "w-0:0"], "with ports from 1 to 65535", id="port 0"),
        pytest.param(["--publish", "w-0:65536"], "with ports from 1 to 65535", id="port too large"),
        pytest.param(["--publish", "80:0"], "80:0: must be TASK-INDEX:PORT[:LOCAL]", id="local port 0"),
        pytest.param(["--publish", "w-0:1:2:3"], "w-0:1:2:3: must be TASK-INDEX:PORT[:LOCAL]", id="three ports"),
        pytest.param(["--publish", "8123:w-0:80"], "must be TASK-INDEX:PORT[:LOCAL]", id="local port first"),
        pytest.param(
            ["--publish", "w-0:80:8123", "--publish", "w-1:80:8123"],
            "--publish: w-0:80:8123 and w-1:80:8123 have the same port of this machine",
            id="one local port twice",
        ),
        pytest.param(
            ["--timeout", "10"],
            "10s, 5m or 1h30m\n  hint: did you mean 10s?",
            id="timeout without a unit",
        ),
        pytest.param(["--timeout", ""], "--timeout: : must be a duration such as 10s", id="timeout of nothing"),
        pytest.param(["--image", "i="], "--image: i=: must be NAME=PATH", id="image of nothing"),
        pytest.param(["--timeout", "0s"], "--timeout: 0s: must be more than 0", id="no time at all"),
        pytest.param(["--env", "A"], "--env: A: is not set here", id="variable without a value"),
        pytest.param(["--env", "é=c"], "--env: é: the name ", id="bad name of a variable"),
        pytest.param(["--mount", "gone"], "--mount: gone: no such file or directory: ", id="mount that is not there"),
        pytest.param(
            ["--mount", "data:rx"], "--mount: data:rx: must be PATH, PATH:ro, SOURCE:TARGET or ", id="bad mode"
        ),
        pytest.param(["--mount", "gone:/x:ro"], "--mount: gone:/x:ro: no such file or directory: ", id="no source"),
        pytest.param(["--mount", "/:/x:ro"], "is a directory of the system", id="mount of the root elsewhere"),
        pytest.param(["--pids-limit", "0"], "--pids-limit: 0: must be a number, 1 or more", id="no processes"),
        pytest.param(["--disk-limit", "x"], "--disk-limit: x: must be a size such as 10Gi", id="no size"),
        pytest.param(["--log-limit", "-1"], "--log-limit: -1: must be more than 0", id="a log of less than nothing"),
        pytest.param(["--allow-host-path", ""], "--allow-host-path: must be a path", id="consent to nothing"),
        pytest.param(["--mount", ":ro"], "--mount: :ro: no such file or directory", id="mount of nothing"),
        pytest.param(["--image", "i"], "--image: i: must be NAME=PATH", id="image without a path"),
        pytest.param(["--image", "i=gone"], "gone: no such file or directory\n  hint: PATH is a directory", id="image"),
        pytest.param(["--image", f"i={LONG}"], f"{LONG}: file name too long", id="image that cannot be looked for"),
        pytest.param(["--mount", LONG], f"{LONG}: file name too long", id="mount that cannot be looked for"),
        pytest.param(["--entrypoint", "i"], '--entrypoint: i: must be IMAGE="COMMAND"', id="entrypoint of nothing"),
        pytest.param(["--entrypoint", "i="], "--entrypoint: i: must be a command", id="empty entrypoint"),
        pytest.param(["--entrypoint", "i='a"], "--entrypoint: i: 'a: no closing quotation", id="open quotation"),
    ],
)
def test_bad_flags_are_errors_that_say_what_is_accepted(words: list[str], message: str) -> None:
    with pytest.raises(InvalidOption) as error:
        _read(*words)
    assert message in error.value.text(FLAGS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("\nx = [,", "pumice.toml:2:6: invalid value", id="no toml"),
        pytest.param("x = [", "pumice.toml: invalid value at the end of the file", id="cut short"),
        pytest.param("x = " + "[" * 10_000, "pumice.toml: a number is too long, or a list too deep", id="too deep"),
        pytest.param("x = " + "1" * 10_000, "pumice.toml: a number is too long", id="too long a number"),
        pytest.param("x = 1\n\0", "pumice.toml:2:1: a NUL byte is not allowed", id="no text"),
        pytest.param("[image]\n", "image: unknown\n  hint: did you mean images? there are images, ", id="mistyped"),
        pytest.param("images = 3", "images: must be a table, found a number\n  hint: write [images]", id="no table"),
        pytest.param(
            "[images]\ni = true",
            "images: i: must be the path of a directory or an archive, found a boolean",
            id="image",
        ),
        pytest.param(
            '[images]\ni = ""', "images: i: must be the path of a directory or an archive, found nothing", id="no path"
        ),
        pytest.param(
            "[entrypoints]\ni = []",
            'entrypoints: i: must be a text, such as "python ./train.py", found a list',
            id="entrypoint",
        ),
        pytest.param(
            "imags = 1\n[images]\na = 1\nb = 2\n[programs]\nc = 3",
            "there are images, entrypoints, programs, files, mounts, args, fit\n"
            "pumice.toml: images: a: must be the path of a directory or an archive, found a number\n"
            "pumice.toml: images: b: must be the path of a directory or an archive, found a number\n"
            "pumice.toml: programs: c: must be a list of files",
            id="all at once",
        ),
        pytest.param('[entrypoints]\ni = "\'"', "entrypoints: i: ': no closing quotation", id="quotation"),
        pytest.param('[programs]\ni = "tool"', "programs: i: must be a list of files", id="programs"),
        pytest.param('[programs]\ni = ["gone"]', "programs: i: gone: no such file", id="missing program"),
        pytest.param('[files]\ni = ["x"]', "files: i: must be {", id="files"),
        pytest.param('[files.i]\nx = "tool"', "files: i: x: must be a path from the root, such as /x", id="file"),
        pytest.param('[files.i]\n"/x" = "gone"', "files: i: gone: no such file", id="missing file"),
        pytest.param('[mounts]\npaths = "data"', "mounts: paths: must be paths = [", id="mounts"),
        pytest.param('[mounts]\nplaces = ["data"]', "mounts: places: must be paths = [", id="mounts of another name"),
        pytest.param(
            f'[programs]\ni = ["{LONG}"]', f"{LONG}: file name too long", id="program that cannot be looked for"
        ),
        pytest.param(f'[files.i]\n"/x" = "{LONG}"', f"{LONG}: file name too long", id="file that cannot be looked for"),
        pytest.param(
            '[mounts]\npaths = ["gone"]', "pumice.toml: mounts: paths: gone: no such file", id="missing mount"
        ),
    ],
)
def test_bad_toml(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "pumice.toml").write_text(text)
    with pytest.raises(InvalidOption) as error:
        _read()
    assert message in str(error.value)


def test_flags_win_over_toml_whose_paths_are_beside_it(tmp_path: Path) -> None:
    (tmp_path / "pumice.toml").write_text(
        '[images]\ni = "image"\nj = "image"\n[entrypoints]\ni = "./tool -x"\nj = "b"\n'
        '[programs]\ni = ["tool"]\n[files.i]\n"/x" = "tool"\n[mounts]\npaths = ["data:ro"]\n'
    )
    settings = _read("--image", "j=data", "--entrypoint", "j=c").settings
    assert settings.images == {"i": tmp_path / "image", "j": tmp_path / "data"}
    assert settings.entrypoints == {"i": (str(tmp_path / "tool"), "-x"), "j": ("c",)}
    assert settings.programs == {"i": (tmp_path / "tool",)}
    assert settings.files == {"i": {"/x": tmp_path / "tool"}}
    assert settings.mounts == (ExtraMount(tmp_path / "data", read_only=True),)


def test_the_directory_of_a_job_elsewhere_is_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path / "data")
    args = _parsed()
    args.file = "../job.yaml"
    assert read_options(args).settings.mounts == (ExtraMount(tmp_path, read_only=True),)


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "passing").mkdir()
    monkeypatch.chdir(tmp_path / "passing")
    (tmp_path / "passing").rmdir()
    with pytest.raises(InvalidOption, match="the working directory is gone"):
        _read()


def test_nowhere_to_keep_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    with pytest.raises(InvalidOption, match="set XDG_STATE_HOME"):
        _read()
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert _read().settings.state == Path("/s/pumice")


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        pytest.param({"HOME": "/h"}, "/h/.local/state/pumice", id="home"),
        pytest.param({"HOME": "/h", "XDG_STATE_HOME": "/s"}, "/s/pumice", id="given"),
        pytest.param({"HOME": "/h", "XDG_STATE_HOME": "s"}, "/h/.local/state/pumice", id="relative, so not given"),
        pytest.param({}, "/own/.local/state/pumice", id="no home in the environment"),
        pytest.param({"HOME": ""}, "/own/.local/state/pumice", id="empty home"),
        pytest.param({"HOME": "h"}, "/own/.local/state/pumice", id="relative home"),
    ],
)
def test_state_directory(environ: dict[str, str], directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pwd, "getpwuid", lambda _number: SimpleNamespace(pw_dir="/own"))
    assert state_directory(environ) == Path(directory)


@pytest.mark.parametrize(
    ("words", "typed"),
    [
        pytest.param([], "pumice run job.yaml --keep", id="plain"),
        pytest.param(
            ["--with", "a b", "--scale", "w=1", "--network", "job", "--isolation", "process", "--timeout", "1s"],
            "pumice run job.yaml --with 'a b' --scale w=1 --network job --isolation process --keep",
            id="flags",
        ),
    ],
)
def test_typed_again(words: list[str], typed: str) -> None:
    assert typed_again(_parsed(*words), Option("keep", True)) == typed
