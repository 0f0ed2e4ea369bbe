"""spark_stomp.protocol.frames."""

from __future__ import annotations

import pickle

from spark_stomp.protocol import Frame


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
