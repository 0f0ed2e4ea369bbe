"""README.md and docs/ say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.docs import README, pages

from spark_stomp import errors
from spark_stomp.errors import StompError
from spark_stomp.options import OPTIONS

TEXT = README.read_text(encoding="utf-8")


@pytest.mark.parametrize(("path", "text"), pages().items(), ids=lambda value: getattr(value, "name", ""))
def test_a_generated_page_is_fresh(path: Path, text: str) -> None:
    # `python tests/support/docs.py` writes it.
    assert path.read_text(encoding="utf-8") == text


def test_every_link_of_the_readme_leads_to_a_file() -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", TEXT)
    assert "docs/options.md" in links
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_every_option_in_a_code_block_exists() -> None:
    blocks = "".join(re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
    used = set(re.findall(r"\.option\(\"(\w+)\"", blocks)) - {"path"}  # of parquet
    assert used
    assert used <= {option.key for option in OPTIONS}


def test_every_error_code_exists() -> None:
    classes = [getattr(errors, name) for name in errors.__all__]
    codes = {cls.code for cls in classes if issubclass(cls, StompError)}
    named = set(re.findall(r"STOMP_[A-Z_]+", TEXT))
    assert named
    assert named <= codes
