"""Where the programs of the test cluster come from, with a Go that is a shell script: no network, no compiler."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from scripts import kubernetes_programs
from scripts.kubernetes_programs import CLUSTER, KUBELET, Module, ProgramsError
from scripts.user_cache import cache_directory
from tests.meta.tree import ROOT

GO = """#!/bin/sh
echo "$@" >> "{log}"
if [ "$1" = version ]; then echo "go version go{version} linux/amd64"; exit 0; fi
{build}
"""
# `-o FILE` is where the program has to be.
BUILD = 'while [ "$1" != -o ]; do shift; done; printf "#!/bin/sh\\n" > "$2"; chmod +x "$2"'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for module in (CLUSTER, KUBELET):
        shutil.copytree(ROOT / module.folder, root / module.folder)
    return root


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    path = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", path)
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": path}


def _install(tmp_path: Path, name: str, script: str) -> None:
    (tmp_path / "bin").mkdir(exist_ok=True)
    program = tmp_path / "bin" / name
    program.write_text(script)
    program.chmod(0o755)


def _install_go(tmp_path: Path, version: str = "1.26.8", build: str = BUILD) -> Path:
    log = tmp_path / "go.log"
    _install(tmp_path, "go", GO.format(log=log, version=version, build=build))
    return log


@pytest.mark.parametrize(("module", "version"), [(CLUSTER, "v1.37.1"), (KUBELET, "v1.35.8")])
def test_built_once_and_then_go_is_never_called(
    tmp_path: Path, environ: dict[str, str], project: Path, module: Module, version: str
) -> None:
    log = _install_go(tmp_path)
    built = kubernetes_programs.find_or_build(environ, project, module)
    assert built.missing() == []
    assert built.directory.name.endswith("-go1.26.8")
    assert "-trimpath" in log.read_text()
    assert f"gitVersion={version}" in log.read_text()
    log.unlink()
    assert kubernetes_programs.find_or_build(environ, project, module) == built
    assert not log.exists()


@pytest.mark.parametrize("name", kubernetes_programs.SOURCES)
def test_other_sources_are_rebuilt(tmp_path: Path, environ: dict[str, str], project: Path, name: str) -> None:
    _install_go(tmp_path)
    before = kubernetes_programs.find_or_build(environ, project)
    source = project / CLUSTER.folder / name
    source.write_text(source.read_text() + "\n")
    assert kubernetes_programs.find(environ, project) is None
    assert kubernetes_programs.find_or_build(environ, project).directory != before.directory


def test_a_build_that_fails_says_why_and_leaves_nothing(tmp_path: Path, environ: dict[str, str], project: Path) -> None:
    _install_go(tmp_path, build="echo no route to the modules >&2; exit 1")
    with pytest.raises(ProgramsError, match="no route to the modules"):
        kubernetes_programs.find_or_build(environ, project)
    assert [each.name for each in cache_directory("kubernetes", environ).iterdir()] == ["lock"]


def test_a_go_that_is_too_old_is_replaced_by_one_of_the_package_index(
    tmp_path: Path, environ: dict[str, str], project: Path
) -> None:
    log = _install_go(tmp_path, version="1.19.8", build="exit 9")
    new = GO.format(log=log, version="1.26.6", build=BUILD).replace('"', '\\"').replace("$", "\\$")
    _install(
        tmp_path,
        "uv",
        '#!/bin/sh\nwhile [ "$1" != --target ]; do shift; done; mkdir -p "$2/go/bin"\n'
        f'printf \'%s\' "{new}" > "$2/go/bin/go"; chmod +x "$2/go/bin/go"\n',
    )
    assert kubernetes_programs.find_or_build(environ, project).directory.name.endswith("-go1.26.6")


def test_programs_that_are_given_are_believed(tmp_path: Path, environ: dict[str, str], project: Path) -> None:
    for name in ("etcd", "kube-apiserver", "kubectl"):
        _install(tmp_path, name, "#!/bin/sh\n")
    found = kubernetes_programs.find_or_build({**environ, "KUBEBUILDER_ASSETS": str(tmp_path / "bin")}, project)
    assert found.path("etcd") == tmp_path / "bin" / "etcd"
    assert found.missing() == ["kube-controller-manager", "kube-scheduler"]
    assert set(CLUSTER.names) == {*found.missing(), "etcd", "kube-apiserver", "kubectl"}
