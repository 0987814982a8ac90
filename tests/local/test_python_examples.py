"""The examples of the Python API: as a script, in a notebook, in a thread, after a fork, under an event loop; types.

`make test` checks their types; it runs almost the same examples from the guides (`test_python_guides.py`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.local import python_examples
from tests.local.sandbox.boxes import need_namespaces
from tests.meta.tree import ROOT

FILE = Path(python_examples.__file__)
ENDING = "pumice.Client().shut_down()"
ELSEWHERE = {
    "thread": "import threading; thread = threading.Thread(target=all_examples); thread.start(); thread.join()",
    "fork": "import os; write_files(); own_a_run(); child = os.fork() or (all_examples(), os._exit(0))\n"
    "assert os.waitpid(child, 0)[1] == 0",
    "loop": "import asyncio\nasync def main(): all_examples(); await submit_and_await()\nasyncio.run(main())",
}


@pytest.fixture(autouse=True)
def _own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_namespaces()
    tmp_path.chmod(0o700)
    jupyter = ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", *jupyter):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(FILE.parent))
    monkeypatch.chdir(tmp_path)


def _run(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.soak
def test_as_a_script() -> None:
    out = _run(str(FILE))
    assert "worker-1  1 of , epochs: 1\n" in out
    assert "ddp:1 Succeeded\n" in out
    assert out.count(" of 4, epochs: 3\n") == 4


@pytest.mark.soak
@pytest.mark.parametrize("where", ELSEWHERE)
def test_elsewhere(where: str) -> None:
    out = _run("-c", f"from python_examples import *\n{ELSEWHERE[where]}\n{ENDING}")
    assert "ddp:1 Succeeded\n" in out


def _text(cell: Any) -> str:
    outputs = cell["outputs"]
    data = [output.get("data", {}) for output in outputs]
    return "".join(output.get("text", "") for output in outputs) + "".join(each.get("text/html", "") for each in data)


@pytest.mark.soak
def test_in_a_notebook(tmp_path: Path) -> None:
    cells = [
        "from python_examples import *\nwrite_files()",
        "run_a_file()",
        "submit_a_job()",
        "await submit_and_await()",
        "run = pumice.get('ddp:1'); run",
        "run = pumice.submit(pumice.load(FILE)); run.watch()",
        "def main(): print()\ntry: pumice.task('w', function=main)\nexcept pumice.InvalidOption as error: print(error)",
        ENDING,
    ]
    format4: Any = nbformat.v4
    notebook = format4.new_notebook(cells=[format4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    shown = [_text(cell) for cell in notebook.cells]
    assert "worker-1  1 of , epochs: 1\n" in shown[1]
    assert "Completed\n" in shown[1]
    assert "ddp:1 Succeeded\n" in shown[2]
    assert shown[3].count(" of 4, epochs: 3\n") == 4
    assert "<b>ddp:1</b> Succeeded" in shown[4]
    # What was displayed first is updated in place.
    assert shown[5].count("<table>") == 1
    assert "<b>quick:2</b> Succeeded" in shown[5]
    assert "a notebook cell (__main__) cannot be imported by a pod" in shown[6]


@pytest.mark.parametrize(
    "checker",
    [
        # `make lint` checks the same file with mypy, from the checkout.
        pytest.param(["mypy", "--strict", "--no-incremental"], id="mypy", marks=pytest.mark.soak),
        pytest.param(["pyright"], id="pyright", marks=pytest.mark.soak),
    ],
)
def test_types(checker: list[str], tmp_path: Path) -> None:
    """As a user's file: with the installed package, and without the settings of this repository."""
    (tmp_path / "program.py").write_text(FILE.read_text())
    (tmp_path / "wrong.py").write_text(
        "import pumice\nn: int = pumice.get('a').status().phase\npumice.run(1)\npumice.run(pumice.Job(), scal=2)\n"
    )
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1", "PYTHONPATH": ""}
    name, *flags = checker
    program = Path(sys.executable).with_name(name)

    def check(file: str) -> subprocess.CompletedProcess[str]:
        words = [str(program), *flags, *(["--pythonpath", sys.executable] if name == "pyright" else []), file]
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)

    good, wrong = check("program.py"), check("wrong.py")
    assert good.returncode == 0, good.stdout
    assert wrong.returncode == 1
    for expected in ("int", "scal", "Job"):
        assert expected in wrong.stdout, wrong.stdout
    assert str(ROOT) not in good.stdout
