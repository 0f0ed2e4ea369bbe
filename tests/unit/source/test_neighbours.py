"""Other sources of the same driver that read the same queue are noticed; nobody else is."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from support.options import source_options

from spark_stomp.source.neighbours import Neighbours
from spark_stomp.status.source import RunIdentity

URL = "stomp://b:61613"
Made = Callable[..., Neighbours]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """A source that looks in a folder of this test, and has joined."""
    monkeypatch.setenv("PYTHON_WORKER_FACTORY_PORT", "1")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))

    def make(
        query: str, *queues: str, url: str = URL, driver: str | None = None, **options: str
    ) -> Neighbours:
        identity = RunIdentity(query) if driver is None else RunIdentity(query, driver=driver)
        one = Neighbours(source_options(url, json.dumps(queues), **options), identity)
        one.join()
        return one

    return make


def test_both_are_told_of_each_other_once(made: Made, caplog: pytest.LogCaptureFixture) -> None:
    first = made("even", "/queue/a", "/queue/b")
    assert first.sharing == () and caplog.text == ""
    second = made("odd", "/amq/queue/a")
    assert second.sharing == ("even",)
    warning = "another source of this program (query even) reads a too. A message goes to one of the two"
    assert caplog.text.count(warning) == 1 and "Read the queue once" in caplog.text
    for _ in range(2):
        first.look()
        second.look()
    assert first.sharing == ("odd",) and len(caplog.messages) == 2
    second.leave()
    first.look()
    assert first.sharing == ()


def test_a_query_with_two_sources_shares_with_itself(made: Made) -> None:
    made("q", "/queue/a")
    assert made("q", "/queue/a").sharing == ("q",)


@pytest.mark.parametrize(
    ("queue", "other"),
    [
        ("/queue/b", {}),
        ("/queue/a", {"url": "stomp://c:61613"}),
        ("/queue/a", {"virtualHost": "other"}),
        ("/queue/a", {"driver": "7@8@pid:[1]"}),
        ("/queue/a", {"selector": "colour = 'blue'"}),
        ("/amq/queue/a", {"startingOffsets": "earliest"}),
    ],
    ids=["queue", "broker", "virtual host", "driver", "selector", "stream"],
)
def test_others_are_none_of_its_business(made: Made, queue: str, other: dict[str, str]) -> None:
    made("one", "/queue/a", **({"selector": "colour = 'red'"} if "selector" in other else {}))
    assert made("two", queue, **other).sharing == ()


def test_topics_are_not_shared(made: Made) -> None:
    made("one", "/topic/a", allowLoss="true")
    assert made("two", "/topic/a", allowLoss="true").sharing == ()


def test_a_source_that_was_killed_leaves_no_trace(made: Made, tmp_path: Path) -> None:
    made("killed", "/queue/a")
    (file,) = tmp_path.glob("*/*.json")
    content = json.loads(file.read_text())
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    file.write_text(json.dumps(content | {"pid": child}))
    assert made("next", "/queue/a").sharing == ()
    assert not file.exists()


@pytest.mark.parametrize("content", ["", "[]", "{", '{"queues": 5}', "[" * 100_000])
def test_a_file_of_something_else(made: Made, tmp_path: Path, content: str) -> None:
    one = made("one", "/queue/a")
    (file,) = tmp_path.glob("*/*.json")
    file.with_name("other.json").write_text(content)
    one.look()
    assert one.sharing == ()


def test_a_folder_that_others_can_write_to_is_not_used(made: Made, tmp_path: Path) -> None:
    folder = tmp_path / f"spark_stomp-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    made("one", "/queue/a").leave()
    assert not [*folder.iterdir()]
    folder.rmdir()
    (elsewhere := tmp_path / "elsewhere").mkdir(0o700)
    folder.symlink_to(elsewhere)
    made("one", "/queue/a").leave()
    assert not [*elsewhere.iterdir()]


def test_without_spark_nobody_is_looked_for(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_PORT")
    monkeypatch.delenv("PYTHON_WORKER_FACTORY_SOCK_PATH", raising=False)
    one = made("one", "/queue/a")
    one.look()
    one.leave()
    assert not [*tmp_path.iterdir()]
