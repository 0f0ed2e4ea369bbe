"""The project's pages, and the programs in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
READING = ROOT / "docs" / "reading.md"


def programs(page: Path, heading: str, language: str = "python") -> list[str]:
    """The blocks of this language in the section of that heading."""
    (section,) = (
        part for part in page.read_text(encoding="utf-8").split("\n## ") if part.partition("\n")[0] == heading
    )
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
