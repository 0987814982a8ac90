"""No file speaks of one machine or one package index; modules keep their size and say what they are for."""

from __future__ import annotations

import ast
import os
import re
import tomllib
from pathlib import Path

import pytest

from pumice.plugins.registry import BUILTINS
from tests.meta.tree import ROOT, SOURCE, repository_files, shown, source_modules, syntax_tree

LONGEST_FILE = 400
LONGEST_FUNCTION = 60
MOST_IMPORTS = 25
PURE_PACKAGES = ("model", "plugins", "admission", "diagnosis", "reconcile")

# Functions that are one table, which reads best in one piece. Each as "path:name".
TABLES: frozenset[str] = frozenset()
# Names of the field that contain a retired word: `tell` of a file, and fault injection.
FIELD_NAMES = {"tell", "fault_proxy", "test_fault_proxy", "test_faults", "FaultProxy", "Faults", "faults", "_fault"}


def _own_addresses() -> list[str]:
    """Strings that identify this machine: the path of the checkout, and the indexes of its installers."""
    settings = (f"{tool}_{what}" for tool in ("PIP", "UV") for what in ("INDEX_URL", "DEFAULT_INDEX", "FIND_LINKS"))
    return [f"{ROOT}/", *filter(None, map(os.environ.get, settings))]


# Examples speak of /home and of /root/.ssh in pods, which is theirs to say; a developer's machine has other paths.
# In pieces, because this file must keep to its own rule.
WORK, VERSIONS = "work", ".pyenv"
FORBIDDEN = {
    "package index": re.compile(
        r"https?://\S*/(?:packages|simple|artifactory)/|/simple/?[\"'\s]"
        r"|index-url[ =]+\S*//|--find-links[ =]"
    ),
    "machine": re.compile(rf"(?<!\w)/{WORK}/|\.pyenv\b|/Users/\w|/home/\w+/(?:\.cache|\.local|src|git)\b"),
    "machine that this test runs on": re.compile("|".join(map(re.escape, _own_addresses()))),
}


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_no_file_names_one_machine_or_one_package_index(kind: str) -> None:
    hits = [
        f"{shown(file)}:{number}: {line.strip()}"
        for file in repository_files()
        if file != Path(__file__)
        for number, line in enumerate(file.read_bytes().decode(errors="replace").splitlines(), start=1)
        if FORBIDDEN[kind].search(line + "\n")
    ]
    assert hits == []


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        pytest.param("package index", "--index-url https://example.org/", id="index option"),
        pytest.param("package index", "https://files.example.org/packages/x", id="file host"),
        pytest.param("package index", 'url = "https://mirror.example/simple"', id="simple index"),
        pytest.param("package index", "--find-links /somewhere", id="find-links"),
        pytest.param("machine", f"cd /{WORK}/main", id="working copy"),
        pytest.param("machine", f"/root/{VERSIONS}/shims/python", id="version manager"),
        pytest.param("machine", "/home/someone/.cache/uv", id="cache"),
    ],
)
def test_the_patterns_find_what_they_are_for(kind: str, line: str) -> None:
    assert FORBIDDEN[kind].search(line)


@pytest.mark.parametrize(
    "line", ["/root/.ssh/id_rsa", "/home/mpiuser/.ssh", f"/workspace/{WORK}/train.py", "a simple job"]
)
def test_the_patterns_leave_paths_in_pods_alone(line: str) -> None:
    assert not any(pattern.search(line) for pattern in FORBIDDEN.values())


def test_no_lock_file_that_would_carry_addresses() -> None:
    assert [shown(file) for file in repository_files() if file.name in {"uv.lock", "package-lock.json"}] == []


def test_every_requirement_is_pinned_with_hashes() -> None:
    for file in (ROOT / "requirements").glob("*.txt"):
        for requirement in re.split(r"\n(?=[A-Za-z0-9])", file.read_text())[1:]:
            assert re.match(r"\S+==\S+", requirement), f"{file.name}: {requirement[:60]}"
            assert "--hash=sha256:" in requirement, f"{file.name}: {requirement[:60]}"


def test_what_runs_is_pinned_as_what_is_tested() -> None:
    assert set(_pins("run")) <= set(_pins("test"))


def _pins(name: str) -> list[str]:
    return re.findall(r"^\S+==\S+", (ROOT / "requirements" / f"{name}.txt").read_text(), re.MULTILINE)


def test_the_linter_keeps_every_plugin_apart() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [apart] = [contract["modules"] for contract in contracts if contract["type"] == "independence"]
    assert apart == sorted(plugin.__module__ for plugin in BUILTINS.values())


def test_modules_are_short_and_say_why_they_exist() -> None:
    wrong = []
    for module in source_modules():
        text = module.read_text()
        tree = syntax_tree(module)
        docstring = ast.get_docstring(tree)
        if not docstring or len(docstring.splitlines()) > 15:
            wrong.append(f"{shown(module)}: no docstring, or one of more than 15 lines")
        if len(text.splitlines()) > LONGEST_FILE:
            wrong.append(f"{shown(module)}: more than {LONGEST_FILE} lines")
        wrong += _long_functions(module, tree)
    for script in sorted(SOURCE.rglob("*.js")):
        text = script.read_text()
        if not text.startswith("// ") or len(text.splitlines()) > LONGEST_FILE:
            wrong.append(f"{shown(script)}: no comment says what it is for, or more than {LONGEST_FILE} lines")
    assert wrong == []


def _long_functions(module: Path, tree: ast.Module) -> list[str]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {f"{shown(module)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1 for node in functions}
    return [
        f"{name}: {lines} lines" for name, lines in lengths.items() if lines > LONGEST_FUNCTION and name not in TABLES
    ]


def _retired_words() -> set[str]:
    """The first column of the glossary's table of retired words."""
    table = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("## Retired words")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")][2:]
    return {word.strip() for row in rows for word in row.split(",")}


def test_no_name_uses_a_retired_word() -> None:
    """Of modules, classes, functions and tests."""
    retired = _retired_words()
    assert len(retired) > 30
    found = []
    for module in (file for file in repository_files() if file.suffix == ".py"):
        named = re.findall(r"^ *(?:async def|def|class) (\w+)", module.read_text(encoding="utf-8"), re.MULTILINE)
        for name in (module.stem, *named):
            words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name.replace("in_place", ""))}
            if (words | {name.strip("_")}) & retired and name not in FIELD_NAMES:
                found.append(f"{shown(module)}: {name}")
    assert found == []


def test_folders_are_small() -> None:
    wrong = []
    for folder in {module.parent for module in source_modules()}:
        most = 15 if folder.relative_to(SOURCE).parts[:1] in (("engines",), ("cli",)) else 25
        count = len(list(folder.glob("*.py")))
        if count > most:
            wrong.append(f"{shown(folder)}: {count} modules, at most {most}")
    assert wrong == []


def test_no_base_name_occurs_twice_in_one_engine() -> None:
    for engine in sorted((SOURCE / "engines").iterdir()):
        found = [path.stem for path in engine.rglob("*.py") if path.name not in ("__init__.py", "__main__.py")]
        found += [path.parent.name for path in engine.rglob("__init__.py") if path.parent != engine]
        assert sorted(found) == sorted(set(found)), engine.name


def test_no_module_imports_too_many_others() -> None:
    modules = {_dotted(path) for path in source_modules()}
    wrong = []
    for path in source_modules():
        imported = set()
        for node in ast.walk(syntax_tree(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pumice"):
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= {name if name in modules else str(node.module) for name in names}
        if len(imported) > MOST_IMPORTS:
            wrong.append(f"{shown(path)}: imports {len(imported)} modules of Pumice, at most {MOST_IMPORTS}")
    assert wrong == []


def test_engines_import_no_module_of_pumice_by_name() -> None:
    """import-linter does not see such an import, so it would hide a cycle."""
    by_name = re.compile(r"import_module\(\s*f?[\"']pumice")
    engines = (path for path in source_modules() if path.is_relative_to(SOURCE / "engines"))
    assert [shown(path) for path in engines if by_name.search(path.read_text(encoding="utf-8"))] == []


def _dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


# The rules for pods share many small modules and are tested by topic; the coverage that `make test` asks for shows that
# every branch of them is reached.
TESTED_BY_TOPIC = SOURCE / "admission" / "podtemplate"


def test_every_pure_module_has_a_test_named_after_it() -> None:
    missing = []
    for package in PURE_PACKAGES:
        for module in sorted((SOURCE / package).rglob("*.py")):
            path = module.relative_to(SOURCE)
            test = ROOT / "tests" / "unit" / path.with_name(f"test_{path.name}")
            if module.name != "__init__.py" and module.parent != TESTED_BY_TOPIC and not test.is_file():
                missing.append(shown(test))
    assert missing == []
