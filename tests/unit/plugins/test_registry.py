from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest

from pumice.plugins.base import Base, option
from pumice.plugins.pytorch import PyTorch
from pumice.plugins.registry import BUILTINS, Registry
from pumice.plugins.shaping import pods
from tests.builders import a_job, a_task, rows

ORDER = ["env", "svc", "ssh", "pytorch", "tensorflow", "mpi", "ray", "hcclrank"]


@dataclass(frozen=True, slots=True)
class Zeta(Base):
    name: ClassVar[str] = "zeta"
    requires: ClassVar[tuple[str, ...]] = ("alpha",)


@dataclass(frozen=True, slots=True)
class Alpha(Base):
    name: ClassVar[str] = "alpha"
    requires: ClassVar[tuple[str, ...]] = ("mpi", "zeta")

    word: str = option("", "a word")


OTHERS = Registry({"zeta": Zeta, "alpha": Alpha}, {"broken": "ImportError: no such module"})


def test_the_order_is_fixed_and_third_parties_come_last_by_name() -> None:
    assert [plugin.name for plugin in BUILTINS.values()] == [*BUILTINS] == ORDER
    assert len(BUILTINS) == len(ORDER)
    with pytest.raises(KeyError):
        BUILTINS["alpha"]
    assert list(OTHERS.plugins) == [*ORDER, "alpha", "zeta"]


def test_only_the_plugins_of_a_job_are_loaded() -> None:
    program = (
        "import sys; from pumice.plugins.registry import Registry; registry = Registry();"
        "registry.resolve(registry.with_required({'pytorch': None}));"
        f"print([each for each in {ORDER} if f'pumice.plugins.{{each}}' in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['svc', 'pytorch']\n"


@pytest.mark.parametrize(
    ("wanted", "complete"),
    [
        pytest.param({}, {}, id="none"),
        pytest.param({"env": None}, {"env": []}, id="nothing behind the name"),
        pytest.param({"pytorch": ["--port=1"]}, {"pytorch": ["--port=1"], "svc": ()}, id="pytorch"),
        pytest.param({"tensorflow": []}, {"tensorflow": [], "svc": ()}, id="tensorflow"),
        pytest.param({"mpi": []}, {"mpi": [], "svc": (), "ssh": ()}, id="mpi"),
        pytest.param({"ray": []}, {"ray": [], "svc": ()}, id="ray"),
        pytest.param({"hcclrank": []}, {"hcclrank": []}, id="hcclrank"),
        pytest.param({"mpi": [], "ssh": ["--x"]}, {"mpi": [], "ssh": ["--x"], "svc": ()}, id="arguments stay"),
        pytest.param({"nobody": []}, {"nobody": []}, id="unknown"),
        pytest.param(
            {"zeta": []}, {"zeta": [], "alpha": (), "mpi": (), "svc": (), "ssh": ()}, id="needs of needs, in a circle"
        ),
    ],
)
def test_what_plugins_need_comes_along(wanted: dict[str, list[str]], complete: dict[str, object]) -> None:
    assert OTHERS.with_required(wanted) == complete
    assert list(OTHERS.with_required(wanted)) == list(complete)


def test_plugins_run_in_the_order_of_the_registry() -> None:
    for wanted in itertools.permutations(["hcclrank", "ssh", "pytorch", "env"]):
        resolved = Registry().resolve(Registry().with_required(dict.fromkeys(wanted)))
        assert [plugin.name for plugin in resolved.plugins] == ["env", "svc", "ssh", "pytorch", "hcclrank"]


def test_arguments_reach_their_plugin() -> None:
    wanted = {"pytorch": ["--port=1", "--x"], "alpha": ["--word=a", "--y"]}
    resolved = OTHERS.resolve(OTHERS.with_required(wanted))
    names = [plugin.name for plugin in resolved.plugins]
    assert names == ["svc", "ssh", "pytorch", "mpi", "alpha", "zeta"]
    assert resolved.plugins[2] == PyTorch(port=1)
    assert [str(finding.path) for finding in resolved.findings] == ["spec.plugins.pytorch[1]", "spec.plugins.alpha[1]"]


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        pytest.param(
            "pytorh", "unknown plugin", f"did you mean pytorch? there are {', '.join(OTHERS.plugins)} (pumice plugins)"
        ),
        pytest.param(
            "quux",
            "unknown plugin",
            f"there are {', '.join(OTHERS.plugins)} (pumice plugins); a plugin of your own needs an entry point in the"
            " group pumice.plugins",
        ),
        pytest.param(
            "broken", "plugin broken is installed but cannot be used: ImportError: no such module", "", id="broken"
        ),
    ],
)
def test_a_plugin_that_is_not_there(name: str, message: str, hint: str) -> None:
    resolved = OTHERS.resolve({name: [], "env": []})
    assert [plugin.name for plugin in resolved.plugins] == ["env"]
    assert rows(resolved.findings) == [("error", f"spec.plugins.{name}", message)]
    assert resolved.findings[0].hint == hint


@dataclass(frozen=True, slots=True)
class Raises(Base):
    name: ClassVar[str] = "raises"

    @classmethod
    def options(cls) -> tuple[()]:
        raise RuntimeError("no options today")


def test_a_third_party_plugin_that_cannot_even_be_parsed() -> None:
    resolved = Registry({"raises": Raises}).resolve({"raises": []})
    assert resolved.plugins == ()
    assert rows(resolved.findings) == [
        ("error", "spec.plugins.raises", "plugin raises failed: RuntimeError: no options today")
    ]


def test_defect_20_the_order_of_plugins_in_the_file_does_not_change_the_pods() -> None:
    """Volcano runs plugins in random order: two like jobs had wait-for-master with and without variables and mount."""
    job = a_job(a_task("master"), a_task("worker", 2))
    names = ["pytorch", "svc", "ssh", "env", "hcclrank"]
    arguments = {"pytorch": ["--wait-master-enabled"]}
    made = []
    for order in itertools.permutations(names):
        resolved = Registry().resolve({name: arguments.get(name, []) for name in order})
        made.append([pod.manifest for pod in pods(job, resolved.plugins)])
    assert all(pods_of_order == made[0] for pods_of_order in made)
    wait = made[0][1]["spec"]["initContainers"][0]
    assert (wait["name"], "env" in wait, "volumeMounts" in wait) == ("wait-for-master", False, False)
