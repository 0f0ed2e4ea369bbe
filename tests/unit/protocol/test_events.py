from __future__ import annotations

import pickle

from spark_stomp.protocol import ConnectRequested, ErrorReceived, Frame, foreign_message


class TestError:
    """STOMP 1.2, "ERROR"."""

    def test_keeps_message_body_and_receipt(self) -> None:
        error = ErrorReceived(Frame("ERROR", (("message", " no "), ("receipt-id", "r")), b"long story\n"))
        assert (error.message, error.detail, error.receipt_id) == ("no", "long story\n", "r")

    def test_takes_the_first_line_of_the_body_for_a_message(self) -> None:
        assert ErrorReceived(Frame("ERROR", (), b"\n first \nsecond")).message == "first"

    def test_says_so_when_there_is_no_reason(self) -> None:
        error = ErrorReceived(Frame("ERROR"))
        assert error.message == "(the broker gave no reason)"
        assert error.receipt_id is None

    def test_reads_any_bytes(self) -> None:
        assert ErrorReceived(Frame("ERROR", (), b"\xff\xfe")).detail == "\ufffd\ufffd"

    def test_cuts_a_long_message(self) -> None:
        assert len(ErrorReceived(Frame("ERROR", (("message", "x" * 5000),))).message) == 203


def test_the_repr_of_a_login_holds_no_secret() -> None:
    request = ConnectRequested("u", "/", ("1.2",), (0, 0), "s3cret", (("passcode", "s3cret"),))
    assert "s3cret" not in repr(request)


def test_a_foreign_message_is_described_in_short() -> None:
    headers = (("subscription", "s\n" * 999), ("destination", "\x1b" * 999))
    assert foreign_message(Frame("MESSAGE", headers)).isprintable()
    assert len(foreign_message(Frame("MESSAGE", headers))) < 1_000


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
