"""The controller is killed after each of its calls to the API server; every scenario still has the same final state.

`make test` kills after every eighth call of one scenario, and after one call of four others, drawn from a seed that is
printed; `make soak` kills after every call of all. Each time a real process is killed after the server has carried
out the call and before it gets the response; then another process continues.
"""

from __future__ import annotations

import itertools
import random
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from pumice.engines.kubernetes.install import names
from tests.cluster.api import Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import fork_pumice
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.fault_proxy import Call, FaultProxy, Faults
from tests.cluster.scenarios import SCENARIOS, JobHandle, Scenario, final_state, wait_until_over
from tests.conftest import SOAK, seed

# Connections to killed processes stay open until they are garbage collected.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
# Calls per kill.
SHARE = {"completes": 8}
# Calls after which a kill has once changed the final state, and their neighbours.
FIXED = {"is cancelled by TorchX": (10, 11, 12)}
AT_ONCE = 4
OTHERS = 4
FAULTY = ("completes", "restarts", "is scaled", "has dependent tasks")
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class CrashRunner:
    cluster: Cluster
    token: str
    folder: Path

    def run(self, scenario: Scenario, kill_after: int = 0, faults: Faults | None = None) -> tuple[Object, list[Call]]:
        """Run a scenario, kill the controller after a call, and return the final state and all calls."""
        namespace = f"crash-{next(_numbers)}-{re.sub('[^a-z]+', '-', scenario.name.lower())}"
        self.cluster.make_namespace(namespace)
        api = self.cluster.api()
        handle = JobHandle(api, namespace)
        with FaultProxy(self.cluster) as proxy, FakeKubelet(self.cluster, namespace, scenario.behaviour) as kubelet:
            config = self.cluster.kubeconfig(names.CONTROLLER, token=self.token, server=proxy.server)
            argv = ["controller", f"--kubeconfig={config}", f"--namespace={namespace}", "--gang=none"]
            argv += ["--no-leader-elect", "--log-format=text", "--log-level=debug"]
            log = self.folder / f"{namespace}.log"
            running = [fork_pumice(argv, log)]

            def after(call: Call) -> bool:
                if call.number != kill_after:
                    return True
                running.pop().kill()
                running.append(fork_pumice(argv, log))
                return False

            proxy.after = after
            proxy.faults = faults
            try:
                api.create("Job", namespace, scenario.job)
                scenario.user_actions(handle)
                wait_until_over(handle, scenario)
                _until_idle(handle, log)
                return final_state(handle, kubelet.created), list(proxy.calls)
            except AssertionError as error:
                raise AssertionError(
                    f"{scenario.name}, killed after call {kill_after}: {error}\n{_tail(log)}"
                ) from error
            finally:
                running.pop().kill()
                assert "Traceback" not in log.read_text(), _tail(log)
                api.delete("Namespace", "", namespace)


def _until_idle(handle: JobHandle, log: Path) -> None:
    """Touch the job until two passes in a row decide to do nothing: only then is the scenario over.

    A controller that was killed may take any time to start, so no pause without a change proves anything. The second
    pass starts after the first has written its status.
    """
    idle = touches = 0
    while idle < 2:
        touches += 1
        before = len(_passes(log))
        if not handle.touch(str(touches)):
            return
        newer = partial(_newer_pass, log, before)
        idle = idle + 1 if eventually(f"a pass over {handle.namespace}", newer).isalpha() else 0


def _newer_pass(log: Path, count: int) -> str:
    passes = _passes(log)
    return passes[-1] if len(passes) > count else ""


def _passes(log: Path) -> list[str]:
    """Return the decision of each pass over the job from the log of the controller."""
    return re.findall(r" DEBUG +job \S+: (.*)$", log.read_text(), re.MULTILINE)


def _tail(log: Path) -> str:
    return "\n".join(log.read_text().splitlines()[-30:]) if log.exists() else ""


@pytest.fixture(scope="module")
def runner(pumice_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> CrashRunner:
    token = pumice_cluster.service_account_token(names.NAMESPACE, names.CONTROLLER)
    return CrashRunner(pumice_cluster, token, tmp_path_factory.mktemp("crashes"))


def _drawn() -> list[str]:
    known = [*SHARE, *FIXED]
    others = [name for name in SCENARIOS if name not in known]
    return [*known, *random.Random(seed()).sample(others, OTHERS)]


@pytest.mark.parametrize("name", SCENARIOS if SOAK else _drawn())
def test_a_killed_controller_changes_no_final_state(runner: CrashRunner, name: str) -> None:
    scenario = SCENARIOS[name]
    expected, calls = runner.run(scenario)
    assert expected["status"].get("state", {}).get("phase", "") == scenario.last_phase
    # Kill also after the first calls, which list objects.
    numbers = list(range(1, len(calls) + 1))
    if not SOAK:
        kills = max(1, len(numbers) // SHARE.get(name, len(numbers)))
        numbers = sorted({*random.Random(f"{seed()} {name}").sample(numbers, kills), *FIXED.get(name, ())})
    with ThreadPoolExecutor(AT_ONCE) as pool:
        states = list(pool.map(lambda number: runner.run(scenario, number)[0], numbers))
    wrong = {str(calls[number - 1]): found for number, found in zip(numbers, states, strict=True) if found != expected}
    print(f"seed {seed()}: {name}: {len(calls)} calls, killed after {len(numbers)} of them")  # noqa: T201 - the seed reproduces it
    assert wrong == {}, f"seed {seed()}; expected {expected}, not {wrong}"


@pytest.mark.parametrize("name", FAULTY if SOAK else random.Random(seed()).sample(FAULTY, 1))
def test_failures_of_a_fifth_of_all_calls_change_no_final_state(runner: CrashRunner, name: str) -> None:
    scenario = SCENARIOS[name]
    expected, _ = runner.run(scenario)
    faulty, calls = runner.run(scenario, faults=Faults(rate=0.2, seed=seed()))
    print(f"seed {seed()}: {name}: {len(calls)} calls")  # noqa: T201 - the seed reproduces it
    assert faulty == expected, f"seed {seed()}"
