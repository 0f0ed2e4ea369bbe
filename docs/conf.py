"""The site of `make docs`: README.md, the pages of this folder, and the Python API from its docstrings."""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

project = "spark_stomp"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
myst_heading_anchors = 3  # a link names a heading by the anchor that GitHub gives it
autodoc_member_order = "bysource"
html_theme = "furo"
html_title = "spark_stomp"
html_show_copyright = False

README = Path(__file__).parents[1] / "README.md"


def setup(app: Sphinx) -> None:
    app.connect("source-read", fit_into_the_site)


def fit_into_the_site(app: Sphinx, page: str, source: list[str]) -> None:
    """README.md begins the first page. A link to a file outside this folder becomes its text."""
    text = source[0]
    if page == "index":
        readme = re.sub(r"\]\((?!https?:|#)", "](../", README.read_text(encoding="utf-8"))
        text = readme.replace("](../docs/", "](") + text
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./[^)]*\)", r"\1", text)
