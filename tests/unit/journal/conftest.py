"""A journal that is opened again and again, on a disk and on a mount."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.journals import Open, reopened


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture(params=["disk", "mount"])
def opened(request: pytest.FixtureRequest, directory: Path) -> Iterator[Open]:
    with reopened(request.param, directory) as one:
        yield one
