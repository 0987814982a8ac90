"""The pages are right: commands print the output shown, Jobs are valid, links have a target."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
import yaml

from pumice.client.job_files import load, render
from pumice.plugins.registry import Registry
from pumice.runtime.offline_context import offline_context
from scripts.frameworks import TORCH, environment, find
from scripts.terminal_pictures import comparable
from tests.conftest import IN_CI
from tests.docs import console
from tests.docs.markdown import TRANSLATIONS, Block, all_blocks, blocks, original, pages
from tests.local.sandbox.boxes import need_namespaces
from tests.meta.tree import ROOT, shown

# Files of another kind, by the key that they start with.
OTHERS = {"repos": "pre-commit", "steps": "a scenario of simulate"}
# Pages whose commands are one story: each block goes on where the last one ended. The reader has torch, and no GPU.
FIRST_JOB, RESUME = (ROOT / "docs" / "guides" / name for name in ("your-first-job.md", "resume-training.md"))
# tests/cluster/test_user_guides.py types the commands of the last one.
STORIES = (FIRST_JOB, RESUME, ROOT / "docs" / "guides" / "from-the-laptop-to-the-cluster.md")


def _named(block: Block) -> str:
    return block.position


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the content of a reader's checkout."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").symlink_to(console.ENVIRONMENT)
    return tmp_path


@pytest.mark.parametrize("block", [block for block in all_blocks("console") if block.page not in STORIES], ids=_named)
def test_a_command_prints_the_output_shown(block: Block, folder: Path) -> None:
    console.provide(block, folder)
    outputs = console.outputs(block, folder)
    for exchange, actual in zip(console.exchanges(block), outputs, strict=True):
        assert console.matches(exchange.expected, actual), f"{block.position}: {exchange.command}\n" + "\n".join(actual)


@pytest.mark.parametrize("page", [FIRST_JOB, pytest.param(RESUME, marks=pytest.mark.soak)], ids=shown)
def test_the_commands_of_a_story_print_the_output_shown(page: Path, folder: Path) -> None:
    need_namespaces()
    python = find(TORCH, os.environ, ROOT)
    if python is None:
        (pytest.fail if IN_CI else pytest.skip)("no torch: make examples fetches it")
    # The reader's environment is no link and has no other path, which a run would warn of.
    (folder / ".venv").unlink()
    story = [block for block in blocks(page) if block.language == "console"]
    console.provide(story[0], folder)
    reader = {**environment(python, {"PATH": console.PATH}), "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""}
    for block in story:
        outputs = console.outputs(block, folder, reader)
        for exchange, actual in zip(console.exchanges(block), outputs, strict=True):
            printed = [console.as_shown(line, folder) for line in actual]
            assert _comparable(printed) == _comparable(exchange.expected), f"{block.position}: {exchange.command}"


def _comparable(lines: list[str]) -> list[str]:
    """What is the same in every run and with every version of Python, which underline errors in different ways."""
    return comparable([line for line in lines if not re.fullmatch(r"\S+ +[~^]+", line)])


def test_a_plugin_of_a_page_is_really_installed() -> None:
    needing = {block.file for block in all_blocks("yaml") if block.needs_plugin}
    typed = [exchange.command for block in all_blocks("console") for exchange in console.exchanges(block)]
    assert needing
    assert [file for file in needing if f"pumice validate {file}" not in typed] == []


@pytest.mark.parametrize("block", all_blocks("yaml"), ids=_named)
def test_a_job_is_good_and_renders(block: Block, tmp_path: Path) -> None:
    documents = [document for document in yaml.safe_load_all(block.text) if document]
    for document in documents:
        assert {"apiVersion", "plugins", "data", *OTHERS} & set(document), f"{block.position}: no test checks this"
        if "plugins" in document:
            assert Registry().resolve(Registry().with_required(document["plugins"])).findings == ()
    if block.needs_plugin or not any(document.get("kind") == "Job" for document in documents):
        return
    file = tmp_path / "job.yaml"
    file.write_text(block.text, encoding="utf-8")
    loaded = load(str(file), offline_context())
    assert loaded.is_good is not block.is_bad, [report.message for report in loaded.reports]
    if block.is_bad:
        return
    assert [report.message for report in loaded.reports] == []
    for entry in loaded.jobs:
        made = [manifest for manifest in render(entry.admitted) if manifest["kind"] == "Pod"]
        assert len(made) == entry.admitted.job.total_replicas > 0


@pytest.mark.parametrize("block", all_blocks("json"), ids=_named)
def test_json_is_json(block: Block) -> None:
    json.loads(block.text)


@pytest.mark.parametrize("block", all_blocks("python"), ids=_named)
def test_python_compiles(block: Block) -> None:
    compile(block.text, block.position, "exec")


@pytest.mark.parametrize("block", all_blocks("sh", "console"), ids=_named)
def test_a_target_of_make_exists(block: Block) -> None:
    for target in re.findall(r"^(?:\$ )?make ([a-z]+)", block.text, re.MULTILINE):
        assert list(console.make_recipe(target)), target


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_every_block_says_what_it_is(page: Path) -> None:
    known = {"console", "ini", "json", "mermaid", "python", "sh", "text", "toml", "yaml"}
    assert [block.position for block in blocks(page) if block.language not in known] == []


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_every_link_has_a_target(page: Path) -> None:
    prose = re.sub(r"```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if target.startswith("https://"):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{shown(page)}: {target}"
        if anchor:
            assert anchor in _anchors(file), f"{shown(page)}: {target}"


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [page for page in pages() if "guides" in page.parts], ids=shown)
def test_every_guide_leads_back_to_all_guides_and_to_its_translation(page: Path) -> None:
    top = page.read_text(encoding="utf-8").partition("\n## ")[0]
    is_index = page.name == "README.md"
    if page in TRANSLATIONS:
        back = "[Pumice](../../../README.zh.md)" if is_index else "[全部指南](README.md)"
        links = [f"[English](../{page.name})", back]
    else:
        back = "[Pumice](../../README.md)" if is_index else "[All guides](README.md)"
        has_translation = (page.parent / "zh" / page.name).is_file()
        links = [back, *([f"[中文](zh/{page.name})"] if has_translation else [])]
    assert [link for link in links if link not in top] == []


@pytest.mark.parametrize("page", pages(), ids=shown)
def test_prose_is_plain(page: Path) -> None:
    banned = r"\b(simply|just|easily|seamless(ly)?|blazing|powerful|leverage|effortless(ly)?)\b"
    prose = re.sub(r"```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert re.findall(banned, prose, re.IGNORECASE) == []


@pytest.mark.parametrize("page", TRANSLATIONS, ids=shown)
def test_a_translation_has_the_same_blocks(page: Path) -> None:
    written = [_without_comments(block) for block in blocks(original(page))]
    assert [_without_comments(block) for block in blocks(page)] == written


@pytest.mark.parametrize("page", TRANSLATIONS, ids=shown)
def test_a_translation_has_the_same_tables_and_headings(page: Path) -> None:
    def outline(file: Path) -> list[str]:
        text = re.sub(r"```.*?^```$", "", file.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        return [line.split()[0] for line in text.splitlines() if re.match(r"#|\||- |\d\. ", line)]

    assert outline(page) == outline(original(page))


def _without_comments(block: Block) -> tuple[str, str, str]:
    text = re.sub(r"\s+#.*$", "", block.text, flags=re.MULTILINE) if block.language == "yaml" else block.text
    return block.language, block.note, text
