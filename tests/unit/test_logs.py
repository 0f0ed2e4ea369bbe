"""Log lines: what each says, and that in a process where nobody set up logging they come out once."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from contextvars import Context, copy_context
from pathlib import Path

import pytest
from support.waiting import PATIENCE

from spark_stomp.logs import Once, about, get_log, lines_about
from spark_stomp.threads import Worker

PACKAGE = Path(__file__).resolve().parents[2] / "spark_stomp"
WHEN = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"


def lines_of(script: str) -> list[str]:
    """What another process, where nobody set up logging, writes to stderr."""
    begin = "import logging; from spark_stomp.logs import *; log = get_log('spark_stomp.some')\n"
    done = subprocess.run([sys.executable, "-c", begin + script], capture_output=True, text=True, check=True)
    return done.stderr.splitlines()


class TestWhereNobodySetUpLogging:
    def test_a_line_has_time_level_query_and_receiver(self) -> None:
        (line,) = lines_of(
            "show('warning'); about(query='flights'); about(receiver='/queue/a#0'); log.warning('%d%%', 5)"
        )
        assert re.fullmatch(WHEN + r" WARNING query=flights receiver=/queue/a#0: 5%", line)

    def test_the_level_decides_what_is_shown(self) -> None:
        assert len(lines_of("show('debug'); log.debug('a'); log.info('b')")) == 2
        assert lines_of("show('warning'); log.debug('a'); log.info('b')") == []
        # Workers serve one query after the other.
        assert len(lines_of("show('debug'); show('info'); log.debug('a'); log.info('b')")) == 1

    def test_what_would_come_again_and_again_comes_once_for_each_query(self) -> None:
        script = (
            "show('warning')\nonce = Once(log)\nfor name in 'aaba':\n"
            "  with lines_about(query=name, batch=name * 2): once.warning('so', 'it is so')"
        )
        warnings = [line.partition(" WARNING ")[2] for line in lines_of(script)]
        assert warnings == ["query=a batch=aa: it is so", "query=b batch=bb: it is so"]

    @pytest.mark.parametrize("part", ["sender.Sender(given)", "write._sum(given, [])"])
    def test_the_sink_shows_what_its_option_says(self, part: str) -> None:
        def shown(level: str) -> list[str]:
            given = f"parse_sink_options({{'url': 'stomp://h', 'logLevel': '{level}'}})"
            imported = "from spark_stomp.options import *; from spark_stomp.sink import write, sender\n"
            return lines_of(f"{imported}given = {given}\n{part}\nlog.info('hello')")

        assert shown("info")[-1].endswith("INFO hello")
        assert shown("warning") == []

    def test_an_event_is_one_line(self) -> None:
        (line,) = lines_of("show('info'); log.error('two\\nlines')")
        assert line.endswith(r"two\nlines")

    def test_an_unexpected_error_is_shown_without_its_causes(self) -> None:
        lines = lines_of(
            "show('info')\n"
            "try:\n"
            "    try:\n        {}['a']\n"
            "    except KeyError as error:\n        raise ValueError('no a\\n2026 forged') from error\n"
            "except ValueError:\n    log.exception('it failed')\n"
        )
        assert lines[0].endswith("it failed")
        # No line of its text looks like one of the log.
        assert lines[-2:] == ["  ValueError: no a", "  2026 forged"]
        assert not any("KeyError" in line for line in lines)

    @pytest.mark.parametrize("logger", ["", "'spark_stomp'"])
    def test_a_process_that_is_set_up_shows_each_line_once_in_its_own_way(self, logger: str) -> None:
        handler = f"logging.getLogger({logger}).addHandler(logging.StreamHandler())\n"
        for script in (f"{handler}show('debug')\n", f"show('debug')\n{handler}"):
            assert lines_of(f"{script}log.warning('once')") == ["once"]

    def test_a_process_that_is_set_up_keeps_its_level(self) -> None:
        assert lines_of("logging.basicConfig(format='%(message)s')\nshow('debug')\nlog.info('a')") == []


class TestWhatALineIsAbout:
    def test_a_thread_begins_with_what_its_maker_says_and_adds_its_own(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        log = get_log("spark_stomp.some")

        def inner() -> None:
            about(receiver="/queue/a#0")
            log.warning("inside")

        def outer() -> None:
            about(query="flights")
            worker = Worker("inner", inner)
            worker.start()
            assert worker.stop(PATIENCE)
            log.warning("outside")

        def whole() -> None:
            copy_context().run(outer)
            log.warning("elsewhere")

        # In its own context: tests before this one may have run queries in this thread.
        Context().run(whole)
        assert [record.getMessage() for record in caplog.records] == [
            "query=flights receiver=/queue/a#0: inside",
            "query=flights: outside",
            "elsewhere",
        ]
        assert {record.filename for record in caplog.records} == {"test_logs.py"}

    def test_a_name_for_a_while(self, caplog: pytest.LogCaptureFixture) -> None:
        """Workers of Spark run tasks of many queries in one thread."""

        def whole() -> None:
            about(query="flights")
            with lines_about(batch=3, partition=None):
                log.warning("inside")
            log.warning("after")

        log = get_log("spark_stomp.some")
        Context().run(whole)
        assert caplog.messages == ["query=flights batch=3: inside", "query=flights: after"]

    def test_nothing_is_made_of_what_is_not_shown(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.WARNING, "spark_stomp"):
            get_log("spark_stomp.some").debug("hidden")
        assert caplog.records == []

    def test_every_module_of_the_package_logs_so(self) -> None:
        own = {path.name for path in PACKAGE.rglob("*.py") if "getLogger" in path.read_text(encoding="utf-8")}
        # The command line shows them in its own way.
        assert own == {"logs.py", "main.py"}


def test_what_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    once = Once(get_log("spark_stomp.test"), most=2)
    with lines_about(query="q"):
        for subject in ("a", "a", "b", "c", "b"):
            once.warning(subject, "%s comes", subject)
        assert [one.rpartition(": ")[2] for one in caplog.messages] == ["a comes", "b comes"]
        once.over("a")
        once.warning("a", "it comes again")
    assert caplog.messages[2].endswith("query=q: it comes again")
