"""Every Python block of README and of the guides runs as a reader runs it: as a program, in a notebook, by pytest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import pumice
from tests.docs.markdown import all_blocks, blocks
from tests.local.sandbox.boxes import need_namespaces
from tests.meta.tree import ROOT

GUIDES = ROOT / "docs" / "guides"
README = ROOT / "README.md"
FROM_PYTHON, NOTEBOOK, PYTEST = (
    GUIDES / f"{name}.md" for name in ("pumice-from-python", "python-in-a-notebook", "test-with-pytest")
)
# Tested with the commands of their pages: programs that pods run, and a plugin.
PROGRAMS = tuple(GUIDES / f"{name}.md" for name in ("your-first-job", "resume-training", "write-a-plugin"))
# Tested on a real API server, by `tests/cluster/test_client_situations.py` and `tests/cluster/test_user_guides.py`.
CLUSTER = tuple(GUIDES / f"{name}.md" for name in ("see-jobs-on-a-cluster", "from-the-laptop-to-the-cluster"))
END = "pumice.Client().shut_down()"
TRAIN = """\
if [ "$VC_TASK_INDEX$DATA" = 0/nowhere ]; then echo "no data in $DATA" >&2; exit 1
elif [ "$VC_TASK_INDEX$WAIT$DATA" = 1yes ] && [ ! -e second ]; then touch second; echo first; sleep 1000
else echo "resumed, loss 0.5, epochs: $EPOCHS"; fi
"""


FAILING = """\
import pumice
def test_leaves_runs_open(pumice_client):
    job = pumice.job("left", tasks=[pumice.task("w", command=["sleep", "1000"])])
    runs = [pumice_client.submit(job), pumice_client.start(job)]
    assert runs[1].wait("running").ok
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a reader: a Job file, a module, and a program for `torchrun`."""
    need_namespaces()
    tmp_path.chmod(0o700)
    jupyter = ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
    for name in ("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", *jupyter):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    _write_job({})
    (tmp_path / "train.py").write_text("def main(epochs): print('trained', epochs)\n")
    (tmp_path / "torchrun").write_text("#!/bin/sh\necho run $1 of $WORLD_SIZE\n")
    (tmp_path / "torchrun").chmod(0o755)
    (tmp_path / "pumice.toml").write_text('fit = true\n[programs]\n"pumice.invalid/host" = ["./torchrun"]\n')
    return tmp_path


def _write_job(env: dict[str, str]) -> None:
    worker = pumice.task("worker", replicas=2, command=["sh", "-c", TRAIN], env=env)
    restart = pumice.Policy(event="PodFailed", action="RestartJob")
    Path("job.yaml").write_text(pumice.job("quick", tasks=[worker], plugins=["env"], policies=[restart]).to_yaml())


def _code(page: Path) -> list[str]:
    """Return the blocks of a page, but for those that need a cluster: tests/cluster has them."""
    found = [block.text for block in blocks(page) if block.language == "python"]
    return [text for text in found if "pumice.connect(" not in text]


def _run(*words: str) -> str:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_page_with_python_is_tested() -> None:
    assert {block.page for block in all_blocks("python")} == {
        README,
        FROM_PYTHON,
        NOTEBOOK,
        PYTEST,
        *CLUSTER,
        *PROGRAMS,
    }


def test_the_readme_and_pumice_from_python(folder: Path) -> None:
    more = (
        "import asyncio; print(run.wait().ok); asyncio.run(main())",
        "print([line.text for line in pumice.submit(pumice.job('f', tasks=[train])).logs()])",
    )
    (folder / "program.py").write_text("\n".join((*_code(README), *_code(FROM_PYTHON), *more, END)))
    lines = _run("program.py").splitlines()
    assert {f"worker-{index} run train.py of 4" for index in range(4)} <= {*lines}
    assert lines.count("None") == 2
    assert "worker-1  resumed, loss 0.5, epochs: 1" in lines
    assert "Succeeded 1" in lines
    assert {"True", "['trained 3']"} <= {*lines}
    assert lines.count("run train.py of 4") == 4


def test_in_a_notebook(folder: Path) -> None:
    format4: Any = nbformat.v4
    more = (
        "print([line.text for line in (await pumice.AsyncClient().submit(job)) and pumice.get('sweep').logs()])",
        "pumice.run(job)",
        "def main(): ...\ntry: pumice.task('w', function=main)\nexcept pumice.InvalidOption as error: print(error)",
        *('pumice.load("job.yaml")', "pumice.runs()", "run.pods()", "run.wait()", "run.why()"),
    )
    notebook = format4.new_notebook(cells=[format4.new_code_cell(cell) for cell in (*_code(NOTEBOOK), *more, END)])
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    shown = [str(cell["outputs"]) for cell in notebook.cells]
    assert "<b>quick:1</b>" in shown[0]
    assert "<b>quick:1</b> Succeeded" in shown[1]
    assert "worker-1 resumed, loss 0.5" in shown[2]
    assert "trained 3" in shown[4]
    # What was displayed first is updated in place.
    assert shown[1].count("<table>") == 1
    assert "worker-0  trained 3" in shown[5]
    assert "Completed" in shown[5]
    assert "a notebook cell (__main__) cannot be imported by a pod" in shown[6]
    tables = [str(cell["outputs"][0]["data"]["text/html"]) for cell in notebook.cells[7:12]]
    parts = (
        "<b>quick</b> 2 pods · plugins env",
        "quick:1</td>",
        "worker-1</td>",
        "<b>quick:1</b> Suc",
        "<b>quick:1</b> Suc",
    )
    assert [part for part, html in zip(parts, tables, strict=True) if part not in html] == []
    plain = [cell["outputs"][0]["data"]["text/plain"] for cell in notebook.cells[7:12]]
    assert plain[0] == "<Job quick: worker 2; plugins env>"
    assert plain[1].startswith("RUN")


@pytest.mark.soak
def test_with_pytest(folder: Path) -> None:
    _write_job({"WAIT": "yes"})
    conftest, tests = _code(PYTEST)
    (folder / "conftest.py").write_text(conftest)
    (folder / "test_job.py").write_text(tests)
    (folder / "test_more.py").write_text(FAILING)
    words = ["-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", f"--basetemp={folder / 'tmp'}"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300, check=False)
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    # What a failed test left open is stopped, too.
    assert list(folder.glob("tmp/**/left/1/run.json"))
    assert list(folder.glob("tmp/**/active/*")) == []
    logs = [path.read_text() for path in folder.glob("tmp/**/runs/default/quick/1/pods/*/*/*.log")]
    assert any("resumed" in text for text in logs)
