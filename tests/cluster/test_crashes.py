"""The controller is killed after each of its calls to the API server; every story comes to the end that it always has.

`make test` kills after each call of two stories, and after a fifth of the calls of the others, drawn from a seed that
is printed; `make soak` kills after every call of all. Each time a real process is killed, when the server has carried
out the call and before the answer is told; then another one takes up the work.
"""

from __future__ import annotations

import itertools
import os
import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from pumice.engines.kubernetes.install import names
from tests.cluster.api import Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.fault_proxy import Call, FaultProxy, Faults
from tests.cluster.forge import Forge
from tests.cluster.played_kubelet import PlayedKubelet
from tests.cluster.scenarios import SCENARIOS, Scenario, Stage, ending, until_over

# Lines to processes that are killed are left open at this end until somebody collects them.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SOAK = os.environ.get("PUMICE_SOAK") == "1"
SEED = int(os.environ.get("PUMICE_SEED") or random.SystemRandom().randrange(1_000_000))
THOROUGH = ("completes", "restarts")
SHARE = 5
AT_ONCE = 4
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Theatre:
    cluster: Cluster
    forge: Forge
    token: str
    folder: Path

    def play(self, scenario: Scenario, kill_after: int = 0, faults: Faults | None = None) -> tuple[Object, list[Call]]:
        """Play a story, the controller killed after that call; what is left in the end, and the calls there were."""
        namespace = f"crash-{next(_numbers)}-{re.sub('[^a-z]+', '-', scenario.name.lower())}"
        self.cluster.make_namespace(namespace)
        api = self.cluster.api()
        stage = Stage(api, namespace)
        with FaultProxy(self.cluster) as proxy, PlayedKubelet(self.cluster, namespace, scenario.behaviour) as kubelet:
            config = self.cluster.kubeconfig(names.CONTROLLER, token=self.token, server=proxy.server)
            argv = ["controller", f"--kubeconfig={config}", f"--namespace={namespace}", "--gang=none"]
            argv += ["--no-leader-elect", "--log-format=text", "--log-level=debug"]
            log = self.folder / f"{namespace}.log"
            running = [self.forge.start(argv, log)]

            def after(call: Call) -> bool:
                if call.number != kill_after:
                    return True
                self.forge.kill(running.pop())
                running.append(self.forge.start(argv, log))
                return False

            proxy.after = after
            proxy.faults = faults
            try:
                api.create("Job", namespace, scenario.job)
                scenario.people(stage)
                until_over(stage, scenario)
                _until_idle(stage, log)
                return ending(stage, kubelet.created), list(proxy.calls)
            except AssertionError as error:
                raise AssertionError(
                    f"{scenario.name}, killed after call {kill_after}: {error}\n{_tail(log)}"
                ) from error
            finally:
                self.forge.kill(running.pop())
                assert "Traceback" not in log.read_text(), _tail(log)
                api.delete("Namespace", "", namespace)


def _until_idle(stage: Stage, log: Path) -> None:
    """Touch the job until two passes in a row decide to do nothing: only then is the story over.

    A controller that was killed may take any time to start, so no pause without a change proves anything. The second
    pass starts after the first has written its status.
    """
    idle = touches = 0
    while idle < 2:
        touches += 1
        before = len(_passes(log))
        if not stage.touch(str(touches)):
            return
        newer = partial(_newer_pass, log, before)
        idle = idle + 1 if eventually(f"a pass over {stage.namespace}", newer, within=120).isalpha() else 0


def _newer_pass(log: Path, count: int) -> str:
    passes = _passes(log)
    return passes[-1] if len(passes) > count else ""


def _passes(log: Path) -> list[str]:
    """What each pass over the job decided, as the controller logs it."""
    return re.findall(r" DEBUG +job \S+: (.*)$", log.read_text(), re.MULTILINE)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text().splitlines()[-30:]) if log.exists() else ""


@pytest.fixture(scope="module")
def theatre(pumice_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    with Forge() as forge:
        token = pumice_cluster.service_account_token(names.NAMESPACE, names.CONTROLLER)
        yield Theatre(pumice_cluster, forge, token, tmp_path_factory.mktemp("crashes"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_controller_that_is_killed_loses_and_doubles_nothing(theatre: Theatre, name: str) -> None:
    scenario = SCENARIOS[name]
    expected, calls = theatre.play(scenario)
    assert expected["status"].get("state", {}).get("phase", "") == scenario.end
    # A kill may come at the calls after the first look around, too.
    numbers = list(range(1, len(calls) + 1))
    if not SOAK and name not in THOROUGH:
        numbers = sorted(random.Random(f"{SEED} {name}").sample(numbers, -(-len(numbers) // SHARE)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        endings = list(pool.map(lambda number: theatre.play(scenario, number)[0], numbers))
    wrong = {str(calls[number - 1]): end for number, end in zip(numbers, endings, strict=True) if end != expected}
    print(f"seed {SEED}: {name}: {len(calls)} calls, killed after {len(numbers)} of them")  # noqa: T201 - it is counted
    assert wrong == {}, f"seed {SEED}; expected {expected}, not {wrong}"


@pytest.mark.parametrize("name", ["completes", "restarts", "is scaled", "has dependent tasks"])
def test_a_fifth_of_all_calls_goes_wrong(theatre: Theatre, name: str) -> None:
    scenario = SCENARIOS[name]
    expected, _ = theatre.play(scenario)
    faulty, calls = theatre.play(scenario, faults=Faults(rate=0.2, seed=SEED))
    print(f"seed {SEED}: {name}: {len(calls)} calls")  # noqa: T201 - it is counted
    assert faulty == expected, f"seed {SEED}"
