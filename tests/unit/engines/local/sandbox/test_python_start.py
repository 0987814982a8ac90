"""Programs of the sandbox run without site packages, so they import the standard library and Pumice only."""

from __future__ import annotations

import subprocess

import pytest

from pumice.engines.local.sandbox.python_start import python_start

STARTED = (
    "plain_processes.reaper",
    "sandbox.diagnosis.trials",
    "sandbox.init.job_init",
    "sandbox.init.read_only_start",
    "sandbox.net.tunnel",
)


@pytest.mark.parametrize("module", STARTED)
def test_a_module_is_imported_without_site_packages(module: str) -> None:
    command = [part.replace("; main()", "") for part in python_start(module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
