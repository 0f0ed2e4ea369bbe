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

    def test_shows_no_values_and_no_body(self) -> None:
        shown = repr(Frame("CONNECT", (("login", "me"), ("passcode", "secret")), b"hidden"))
        assert shown == "<Frame CONNECT [login, passcode] 6 bytes>"

    def test_travels(self) -> None:
        frame = Frame("SEND", (("a", "b"),), b"\0")
        assert pickle.loads(pickle.dumps(frame)) == frame


class TestLimits:
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
