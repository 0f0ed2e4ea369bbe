"""What is drawn in a terminal, and what is written to a file or a pipe."""

from __future__ import annotations

import io
import os
import pty

import pytest

from spark_stomp.commands.terminal import Rate, Terminal, duration, fitted, size

LINE = [("one ", "good"), ("two", "")]


class Screen(io.StringIO):
    """Says that it is a terminal; it has no size."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Screen()


def test_no_terminal_gets_plain_text() -> None:
    out = io.StringIO()
    terminal = Terminal(out)
    terminal.write([LINE, []])
    assert not terminal.interactive
    assert out.getvalue() == "one two\n\n"


def test_a_terminal_gets_colours(screen: Screen) -> None:
    Terminal(screen).write([LINE])
    assert screen.getvalue() == "\x1b[32mone \x1b[0mtwo\n"


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_refused(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str]
) -> None:
    monkeypatch.setenv(*variable)
    Terminal(screen).write([LINE])
    assert screen.getvalue() == "one two\n"


def test_its_own_screen_that_goes_away_again(screen: Screen) -> None:
    terminal = Terminal(screen)
    with pytest.raises(KeyboardInterrupt), terminal.screen():
        terminal.draw([LINE] * 50)
        drawn = screen.getvalue()
        raise KeyboardInterrupt
    assert drawn.startswith("\x1b[?1049h\x1b[?25l\x1b[H") and drawn.endswith("\x1b[J")
    assert drawn.count("two") == terminal.size[1]
    assert screen.getvalue().endswith("\x1b[?25h\x1b[?1049l")


def test_the_size_is_that_of_the_terminal() -> None:
    leader, follower = pty.openpty()
    try:
        with os.fdopen(follower, "w") as stream:
            assert Terminal(stream).size == (100, 40)  # it has none yet
            import fcntl
            import struct
            import termios

            fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 34, 0, 0))
            assert Terminal(stream).size == (34, 12)
    finally:
        os.close(leader)


@pytest.mark.parametrize(
    ("columns", "text"), [(7, "one two"), (6, "one t…"), (4, "one…"), (1, "…"), (0, "…")]
)
def test_what_does_not_fit_is_cut(columns: int, text: str) -> None:
    assert "".join(part for part, _ in fitted(LINE, columns)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (2.34, "2.3 s"),
        (59.9, "59 s"),
        (61, "1 min 1 s"),
        (7325, "2 h 2 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("octets", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2e9, "2.0 GB"), (3e15, "3000.0 TB")]
)
def test_size(octets: float, text: str) -> None:
    assert size(octets) == text


def test_a_rate_is_that_of_some_seconds() -> None:
    rate = Rate()
    seen = [(0, 100, None), (2, 300, 100), (15, 300, pytest.approx(200 / 15)), (17, 450, 10)]
    assert all(rate.of(count, now) == expected for now, count, expected in seen)
