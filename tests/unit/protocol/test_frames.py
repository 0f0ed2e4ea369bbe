"""spark_stomp.protocol.frames."""

from __future__ import annotations

import pickle

import pytest

from spark_stomp.errors import LocalProtocolError
from spark_stomp.protocol import Frame, Limits


class TestFrame:
    def test_the_first_of_repeated_headers_counts(self) -> None:
        """STOMP 1.2, "Repeated Header Entries"."""
        frame = Frame("MESSAGE", (("foo", "World"), ("foo", "Hello")))
        assert frame.get("foo") == "World"

    def test_a_missing_header_is_none_or_the_default(self) -> None:
        frame = Frame("MESSAGE")
        assert frame.get("foo") is None
        assert frame.get("foo", "bar") == "bar"

    def test_names_are_case_sensitive(self) -> None:
        assert Frame("SEND", (("Foo", "1"),)).get("foo") is None

    def test_cannot_be_changed(self) -> None:
        with pytest.raises(AttributeError):
            Frame("SEND").body = b"x"  # type: ignore[misc]

    def test_shows_no_values_and_no_body(self) -> None:
        shown = repr(Frame("CONNECT", (("login", "me"), ("passcode", "secret")), b"hidden"))
        assert shown == "<Frame CONNECT [login, passcode] 6 bytes>"

    def test_travels(self) -> None:
        frame = Frame("SEND", (("a", "b"),), b"\0")
        assert pickle.loads(pickle.dumps(frame)) == frame


class TestLimits:
    def test_before_connected_all_are_lower_or_equal(self) -> None:
        late, early = Limits(), Limits.before_connected()
        assert early.max_command <= late.max_command
        assert early.max_header_line < late.max_header_line
        assert early.max_headers < late.max_headers
        assert early.max_body < late.max_body
        assert early.max_frame < late.max_frame

    def test_before_connected(self) -> None:
        assert Limits.before_connected() == Limits(64, 8 * 1024, 100, 64 * 1024, 256 * 1024)

    def test_the_defaults_let_a_large_message_through(self) -> None:
        assert Limits() == Limits(64, 64 * 1024, 1000, 128 * 1024**2, 256 * 1024**2)

    @pytest.mark.parametrize("name", ["max_command", "max_header_line", "max_frame"])
    def test_zero_is_refused_where_nothing_could_pass(self, name: str) -> None:
        assert getattr(Limits(**{name: 1}), name) == 1
        with pytest.raises(LocalProtocolError, match=rf"{name} must be a whole number from 1 on, not 0"):
            Limits(**{name: 0})

    @pytest.mark.parametrize("name", ["max_headers", "max_body"])
    def test_zero_means_none_where_that_makes_sense(self, name: str) -> None:
        assert getattr(Limits(**{name: 0}), name) == 0
        with pytest.raises(LocalProtocolError, match=rf"{name} must be a whole number from 0 on, not -1"):
            Limits(**{name: -1})

    def test_other_types_are_refused(self) -> None:
        with pytest.raises(LocalProtocolError, match="max_body"):
            Limits(max_body=1.5)  # type: ignore[arg-type]
