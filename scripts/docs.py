"""What `make docs` does: writes docs/states.md, docs/reference/, the pages of permissions and data/crds.json.

Pages are derived from the code alone: the options that a plugin declares, the pod before and after it, the fields of
the model with their descriptions. A test compares each page with the code.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from pumice.plugins.registry import BUILTINS
from scripts import (
    crds,
    docs_commands,
    docs_job,
    docs_permissions,
    docs_permissions_zh,
    docs_plugins,
    docs_python,
    states,
)

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
GUIDES = ROOT / "docs" / "guides"
NOTE = "<!-- Made by `make docs` from the code. Changes made here are lost. -->\n\n"


def reference() -> Mapping[Path, str]:
    """Every generated page, by the file that it belongs in."""
    texts = {
        REFERENCE / "commands.md": docs_commands.page(),
        REFERENCE / "job.md": docs_job.page(),
        REFERENCE / "python.md": docs_python.page(),
        GUIDES / "permissions.md": docs_permissions.page(),
        GUIDES / "zh" / "permissions.md": docs_permissions_zh.page(),
        REFERENCE / "plugins" / "README.md": docs_plugins.overview(tuple(BUILTINS.values())),
    }
    texts |= {REFERENCE / "plugins" / f"{plugin.name}.md": docs_plugins.page(plugin) for plugin in BUILTINS.values()}
    return {file: NOTE + text for file, text in texts.items()}


def main() -> int:
    crds.main()
    states.main()
    pages = reference()
    for file in sorted(REFERENCE.rglob("*.md")):
        if file not in pages:
            file.unlink()
            print(f"removed {file.relative_to(ROOT)}")
    for file, text in pages.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            print(f"wrote {file.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
