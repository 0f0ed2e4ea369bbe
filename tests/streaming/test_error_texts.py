"""The commonest mistakes and what a user sees of each, in tests/data/error_texts.md.

``SPARK_STOMP_WRITE_ERROR_TEXTS=1`` writes the file again, with the newest Spark. Read it then like somebody
who is tired and wants to go home.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from support.release import spark_release
from support.tcp import unused_port

from spark_stomp import register
from spark_stomp.devbroker import DevBroker

if TYPE_CHECKING:
    from support.connect import ConnectServer

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[1] / "data" / "error_texts.md"
WRITES = os.environ.get("SPARK_STOMP_WRITE_ERROR_TEXTS") == "1"
QUEUE = "/queue/orders"
# The release whose texts the file has. Others have other lines of Spark's around ours.
RELEASE = (4, 3)
MOST_LINES = 10
PLACES = {
    r'File "[^"]*?/(pyspark\.zip/|)(pyspark|spark_stomp|tests)/([^"]*)", line \d+': r'File "\2/\3"',
    r"\b(id|runId) = [0-9a-f-]{36}": r"\1 = ...",
    r"(127\.0\.0\.1|localhost):\d{4,5}": r"\1:61613",
    r"(stage|Stage|TID|Task|task) \d+(\.\d+)?": r"\1 N",
    r"@[0-9a-f]{6,8}\b": "@...",
    r"\(\S+ executor driver\)": "(executor driver)",
    r"#\d+L?\b": "#N",
    r"ID:[\w.-]+(:[\w.-]+)*": "ID:...",
}
"""What differs from run to run, and what is shown in its place."""
CARETS = re.compile(r"^\s*[~^]+\s*$")
JVM = "\t(frames of the JVM)\n"
SENTENCE = re.compile(r"\[STOMP_[A-Z_]+\]")
OF_PYTHON = re.compile(r'^\s+File "|^Traceback|^During handling|^The above exception|^\w*Error: ')


def rendered(error: BaseException, folder: Path) -> str:
    """What Python prints of ``error`` below the lines of the user's own script.

    Without carets, which come with newer Pythons; several frames of the JVM are one line.
    """
    text = "".join(traceback.format_exception_only(error))
    text = text.replace(str(folder), "FOLDER").replace(sys.executable, "PYTHON")
    for pattern, put in PLACES.items():
        text = re.sub(pattern, put, text)
    text = re.sub(r"(^\t(at |\.\.\. ).*\n?)+", JVM, text.rstrip() + "\n", flags=re.M)
    return "\n".join(line.rstrip() for line in text.splitlines() if not CARETS.match(line)) + "\n"


def around_the_sentence(text: str) -> tuple[list[str], list[str]]:
    """The lines of Python's trace before our sentence, and those after it: there should be none."""
    lines = text.splitlines()
    sentence = next(number for number, line in enumerate(lines) if SENTENCE.search(line))
    traces = [i for i in range(sentence) if "Traceback (most recent call last)" in lines[i]]
    after = [line for line in lines[sentence + 1 :] if OF_PYTHON.match(line)]
    return lines[max(traces, default=sentence) : sentence], after


class Place:
    """Where mistakes are made: a session, a broker, a folder."""

    def __init__(self, spark: SparkSession, broker: DevBroker, secured: DevBroker, folder: Path) -> None:
        self.spark, self.broker, self.folder = spark, broker, folder
        self.wrong_login = {"url": secured.url, "login": "guest", "password": "wrong"}

    def load(self, path: str | None = QUEUE, *, schema: str = "", **options: Any) -> DataFrame:
        """A batch read, which is not run."""
        return self._loaded(self.spark.read, path, schema, options)

    def stream(self, path: str | None = QUEUE, *, schema: str = "", **options: Any) -> DataFrame:
        """A stream read, which is not started."""
        return self._loaded(self.spark.readStream, path, schema, options)

    def _loaded(
        self, reader: Any, destination: str | None, schema: str, options: dict[str, Any]
    ) -> DataFrame:
        reader = reader.format("stomp").options(**self._with_url(options))
        frame: DataFrame = (reader.schema(schema) if schema else reader).load(destination)
        assert frame.schema.fields  # over Connect, nothing is checked before somebody asks
        return frame

    def _with_url(self, options: dict[str, Any]) -> dict[str, Any]:
        given = {"url": self.broker.url, **options}
        return {key: value for key, value in given.items() if value is not None}

    def run(self, frame: DataFrame, **sink: Any) -> None:
        """Start a query and wait for its end."""
        writer = frame.writeStream.option("checkpointLocation", str(self.folder / "checkpoint"))
        writer = writer.format("stomp" if sink else "noop").options(**(self._with_url(sink) if sink else {}))
        writer.trigger(availableNow=True).start().awaitTermination()

    def save(self, row: str = "'a' AS body", mode: str = "append", **options: Any) -> None:
        """A batch write of one row."""
        frame = self.spark.sql(f"SELECT {row}")
        frame.write.format("stomp").mode(mode).options(**self._with_url(options)).save()


def a_wrong_python(at: Place) -> None:
    other = at.folder / "python3"
    other.write_text("""#!/bin/sh\necho "ModuleNotFoundError: No module named 'spark_stomp'" >&2; exit 1\n""")
    other.chmod(0o755)
    register(
        SimpleNamespace(sparkContext=SimpleNamespace(pythonExec=str(other)))  # type: ignore[arg-type]
    )


def too_many(at: Place) -> None:
    at.broker.publish_many("/queue/many", [b"x"] * 1001)
    at.load("/queue/many").collect()


def a_body_that_is_no_text(at: Place) -> None:
    at.broker.publish("/queue/bytes", b"caf\xe9", [("content-type", "text/plain")])
    at.load("/queue/bytes", schema="body string").collect()


NOBODY = f"stomp://127.0.0.1:{unused_port()}"
MISTAKES: dict[str, Callable[[Place], object]] = {
    "Spark starts a Python without the package": a_wrong_python,
    "no url": lambda at: at.load(url=None),
    "no destination": lambda at: at.load(None),
    "a url without a scheme": lambda at: at.load(url="localhost:61613"),
    "ActiveMQ's own url": lambda at: at.stream(url="tcp://localhost:61616"),
    "credentials in the url": lambda at: at.load(url="stomp://guest:secret@localhost:61613"),
    "the destination in the url": lambda at: at.load(None, url="stomp://localhost:61613/queue/orders"),
    "the url in load()": lambda at: at.load("stomp://localhost:61613"),
    "host and port": lambda at: at.load(url=None, host="localhost", port=61613),
    "passcode and username": lambda at: at.load(username="guest", passcode="secret"),
    "a password without a login": lambda at: at.load(password="secret"),
    "a misspelled option": lambda at: at.stream(maxMesagesPerTrigger=100),
    "options of Kafka": lambda at: at.stream(
        None,
        url=None,
        **{"kafka.bootstrap.servers": "a:9092", "subscribe": "x", "startingOffsets": "earliest"},
    ),
    "maxOffsetsPerTrigger": lambda at: at.stream(maxOffsetsPerTrigger=100),
    "a duration without a unit": lambda at: at.load(connectTimeout=5),
    "headers that are not JSON": lambda at: at.load(connectHeaders="{'a': 'b'}"),
    "load() and destination": lambda at: at.load("/queue/a", destination="/queue/b"),
    "drain without a journal": lambda at: at.stream(drain="true"),
    "CREATE TABLE": lambda at: at.spark.sql(f"CREATE TABLE t USING stomp OPTIONS (url '{at.broker.url}')"),
    "an option of writes in a stream": lambda at: at.run(at.stream(persistent="true")),
    "a column that does not exist": lambda at: at.load(schema="bodi string").collect(),
    "a column that does not exist, in a stream": lambda at: at.run(
        at.stream(schema="body string, key string")
    ),
    "nobody is listening": lambda at: at.load(url=NOBODY).collect(),
    "nobody is listening to a stream": lambda at: at.run(at.stream(url=NOBODY)),
    "a wrong password": lambda at: at.load(**at.wrong_login).collect(),
    "a wrong password of a stream": lambda at: at.run(at.stream(**at.wrong_login)),
    "a topic in a batch read": lambda at: at.load("/topic/prices").collect(),
    "more messages than a batch read shows": too_many,
    "a body that is no text": a_body_that_is_no_text,
    "mode overwrite": lambda at: at.save(mode="overwrite", destination=QUEUE),
    "a write without a body": lambda at: at.save("'a' AS value", destination=QUEUE),
    "a write with a column too many": lambda at: at.save("'a' AS body, 'k' AS key", destination=QUEUE),
    "a write with a misspelled option": lambda at: at.save(destination=QUEUE, recieptTimeout="5s"),
    "a write without a destination": lambda at: at.save(),
    "a write to a forbidden destination": lambda at: at.save(destination="/queue/forbidden"),
    "a write with a wrong password": lambda at: at.save(destination=QUEUE, **at.wrong_login),
    "a stream write with a misspelled option": lambda at: at.run(
        at.spark.readStream.format("rate").load().selectExpr("'a' AS body"),
        destination=QUEUE,
        persistant="true",
    ),
}
OVER_CONNECT = (
    "ActiveMQ's own url",
    "passcode and username",
    "a column that does not exist",
    "a wrong password of a stream",
    "a write with a misspelled option",
    "a write with a wrong password",
    "a stream write with a misspelled option",
)
"""One mistake for each place from which Spark brings an error of ours to the user."""
SERVER_STACKTRACE = "spark.sql.connect.serverStacktrace.enabled"
TITLES = [*MISTAKES, *(f"{title}, over Connect" for title in OVER_CONNECT)]


@pytest.fixture(scope="module")
def texts() -> Iterator[dict[str, str]]:
    """The text of each mistake that was made so far; written at the end, if that is asked for."""
    found: dict[str, str] = {}
    yield found
    if WRITES:
        assert list(found) == TITLES
        PAGE.write_text(page(found), encoding="utf-8")


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[DevBroker, DevBroker]]:
    """One that lets everybody in, and one that does not."""
    with DevBroker(refuse=("/queue/forbidden",)) as broker, DevBroker(users={"guest": "right"}) as secured:
        yield broker, secured


def page(texts: dict[str, str]) -> str:
    head = f"# What a user sees of the commonest mistakes, on Spark {'.'.join(map(str, RELEASE))}\n"
    return head + "".join(f"\n## {title}\n\n```\n{text}```\n" for title, text in texts.items())


def kept() -> dict[str, str]:
    """The texts of the file, by title."""
    return dict(re.findall(r"^## ([^\n]+)\n\n```\n(.*?)```$", PAGE.read_text(encoding="utf-8"), re.M | re.S))


@pytest.fixture(scope="module")
def client(connect_server: ConnectServer) -> Iterator[SparkSession]:
    """A session over Connect, beside the classic one."""
    from pyspark.sql.connect.session import SparkSession as Client

    session: Any = Client.builder.remote(connect_server.url).create()
    yield session
    session.stop()


def text_of(title: str, at: Place) -> str:
    """What Python prints of the mistake."""
    with pytest.raises(Exception) as caught:
        MISTAKES[title](at)
    text = rendered(caught.value, at.folder)
    assert "secret" not in text
    return text


def check(title: str, text: str, texts: dict[str, str]) -> None:
    """Our sentence is near the begin, nothing of Python's follows it, and the file has this text."""
    texts[title] = text
    above, below = around_the_sentence(text)
    assert len(above) <= MOST_LINES, text
    assert below == [], text
    if spark_release() == RELEASE and not WRITES:
        assert text == kept()[title]


@pytest.mark.parametrize("title", MISTAKES)
def test_a_mistake(
    spark: SparkSession,
    brokers: tuple[DevBroker, DevBroker],
    tmp_path: Path,
    texts: dict[str, str],
    title: str,
) -> None:
    check(title, text_of(title, Place(spark, *brokers, tmp_path)), texts)


@pytest.mark.soak
@pytest.mark.parametrize("title", OVER_CONNECT)
def test_a_mistake_over_connect(
    client: SparkSession,
    brokers: tuple[DevBroker, DevBroker],
    tmp_path: Path,
    texts: dict[str, str],
    title: str,
) -> None:
    client.conf.set(SERVER_STACKTRACE, "false")  # as docs/operate.md says
    text = text_of(title, Place(client, *brokers, tmp_path))
    assert JVM not in text
    check(f"{title}, over Connect", text, texts)


@pytest.mark.soak
@pytest.mark.parametrize("title", ["passcode and username", "a wrong password of a stream"])
def test_a_mistake_over_connect_without_the_setting(
    client: SparkSession, brokers: tuple[DevBroker, DevBroker], tmp_path: Path, title: str
) -> None:
    client.conf.unset(SERVER_STACKTRACE)
    text = text_of(title, Place(client, *brokers, tmp_path))
    assert len(around_the_sentence(text)[0]) <= MOST_LINES
    assert JVM in text


def test_the_file_has_these_mistakes_only() -> None:
    assert WRITES or list(kept()) == TITLES
