"""One fact has one type and one reader: the verdict of a run, and what its journal says."""

from __future__ import annotations

import ast
import tomllib

from tests.meta.tree import ROOT, SOURCE, source_modules, syntax_tree

# Who reads entries of a journal, or decodes them, besides the fold. They show each entry, and derive nothing.
READERS = {
    "cli/runs/history.py": "prints each entry",
    "client/local/watching.py": "yields each entry, and decodes the messages of a live run",
    "store/history/run_history.py": "the fold",
    "store/history/stored_history.py": "reads entries for the fold",
    "client/local/lease.py": "decodes the messages of a live run",
}
_READING = {"read_journal", "EventDecoder", "decode_entry"}


def _imported(tree: ast.Module) -> set[str]:
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {alias.name for node in imports for alias in node.names}


def test_the_journal_has_one_fold() -> None:
    readers = {str(file.relative_to(SOURCE)) for file in source_modules() if _imported(syntax_tree(file)) & _READING}
    assert readers == set(READERS)


def test_there_is_one_verdict() -> None:
    classes = (
        node for file in source_modules() for node in ast.walk(syntax_tree(file)) if isinstance(node, ast.ClassDef)
    )
    names = [node.name for node in classes]
    assert names.count("Verdict") == 1
    assert names.count("RunHistory") == 1


def test_all_commands_and_the_python_api_are_under_the_contract_of_the_port() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    sources = {each for one in contracts if one["name"].endswith("they use the port") for each in one["source_modules"]}
    modules = {
        ".".join(("pumice", *file.relative_to(SOURCE).with_suffix("").parts))
        for package in ("cli", "client")
        for file in (SOURCE / package).rglob("*.py")
        if file.name != "__init__.py"
    }
    free = {each for each in modules if not any(f"{each}.".startswith(f"{source}.") for source in sources)}
    # The backends themselves, and the commands that are entry points of the Kubernetes engine.
    assert {each for each in free if not each.startswith(("pumice.client.local.", "pumice.client.cluster."))} == {
        "pumice.cli.cluster.controller",
        "pumice.cli.cluster.install",
        "pumice.cli.cluster.webhook",
    }
