"""No rule is forgotten: every check is reached on the way in, and every module of checks has tests of its own."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pumice.admission
from pumice.admission.review import validate
from tests.builders import a_context, a_document
from tests.unit.admission.findings import task

FOLDER = Path(pumice.admission.__file__).parent
TESTS = Path(__file__).parent


def checks() -> Iterator[tuple[str, str]]:
    """Module and name of each public check."""
    for file in sorted(FOLDER.glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("check_"):
                yield file.stem, node.name


def reached(document: dict[str, Any], old: dict[str, Any] | None = None) -> set[tuple[str, str]]:
    """The checks that run while a document is admitted or updated."""
    seen: set[tuple[str, str]] = set()

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name.startswith("check_") and Path(code.co_filename).parent == FOLDER:
            seen.add((Path(code.co_filename).stem, code.co_name))

    operation = "CREATE" if old is None else "UPDATE"
    sys.setprofile(watch)
    try:
        validate({"request": {"uid": "", "operation": operation, "object": document, "oldObject": old}}, a_context())
    finally:
        sys.setprofile(None)
    return seen


# A companion is a document of its own, and portability is asked for by a flag.
ASKED_ELSEWHERE = {
    ("extra_objects", "check_extra_object"),
    ("extra_objects", "check_config_data"),
    ("portability", "check_portability"),
}


def test_every_check_is_reached() -> None:
    created = reached(a_document(plugins={"svc": []}))
    updated = reached(a_document(tasks=[task(replicas=2)]), a_document())
    assert created | updated | ASKED_ELSEWHERE == set(checks())


@pytest.mark.parametrize("module", sorted({module for module, _ in checks()}))
def test_every_module_of_checks_has_its_tests(module: str) -> None:
    assert (TESTS / f"test_{module}.py").is_file()
