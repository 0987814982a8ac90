"""The package's public names exist, and are all that the type checker is told about."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import pumice


@pytest.mark.parametrize("name", pumice.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(pumice, name).__name__ == {"Policy": "LifecyclePolicy"}.get(name, name)


def test_the_type_checker_knows_the_same_names() -> None:
    told = re.findall(r"import (\w+) as \1$", Path(pumice.__file__).read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(told) == sorted((*pumice.__all__, "plugins"))


def test_nothing_else_is_shown() -> None:
    assert dir(pumice) == sorted((*pumice.__all__, "plugins"))
    assert dir(pumice.plugins) == sorted(pumice.plugins.__all__)


# The names that the design promises; plugin authors have the others.
PROMISED = """
    load load_all job task run start submit get runs connect
    Client Run OwnedRun AsyncClient AsyncRun AsyncOwnedRun
    Job TaskSpec Policy Result Verdict Status PodStatus Attempt LogLine Event Why Shortage Finding Phase Outcome
    PumiceError InvalidJob InvalidOption DoesNotFit WrongState Unsupported Denied RunFailed StoreError
    NoSuchRun NoSuchPod WaitTimeout ConnectionFailed VersionMismatch
"""
FOR_PLUGINS = "Admitted Base Context Path Pod Slot admit discover env_values option"


def test_the_promised_names_are_public_and_no_others() -> None:
    assert sorted(pumice.__all__) == sorted((PROMISED + FOR_PLUGINS).split())


def test_importing_the_package_loads_nothing_of_it() -> None:
    program = (
        "import sys; import pumice; print(sorted(name for name in sys.modules if name.startswith('pumice')));"
        "pumice.plugins.PyTorch, pumice.Client, pumice.AsyncClient, pumice.job, pumice.load;"
        "print(sorted({'aiohttp', 'cryptography', 'torch', 'IPython', 'pytest'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "['pumice']\n[]\n"


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        pumice.nonsense  # noqa: B018 - the attribute is what is tested
