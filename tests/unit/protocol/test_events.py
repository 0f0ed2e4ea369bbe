from __future__ import annotations

import pickle

import pytest

from spark_stomp.protocol import ConnectRequested, ErrorReceived, Frame, foreign_message


@pytest.mark.parametrize(
    ("headers", "body", "message", "detail", "receipt"),
    [
        ({"message": " no ", "receipt-id": "r"}, b"long story\n", "no", "long story\n", "r"),
        ({}, b"\n first \nsecond", "first", "\n first \nsecond", None),
        ({}, b"", "(the broker gave no reason)", "", None),
        ({}, b"\xff\xfe", "\ufffd\ufffd", "\ufffd\ufffd", None),
        ({"message": "x" * 5000}, b"", "x" * 200 + "...", "", None),
    ],
)
def test_what_an_error_says(
    headers: dict[str, str], body: bytes, message: str, detail: str, receipt: str | None
) -> None:
    """STOMP 1.2, "ERROR": the first line of the body counts if there is no message."""
    error = ErrorReceived(Frame("ERROR", tuple(headers.items()), body))
    assert (error.message, error.detail, error.receipt_id) == (message, detail, receipt)


def test_the_repr_of_a_login_holds_no_secret() -> None:
    request = ConnectRequested("u", "s3cret", (("passcode", "s3cret"),))
    assert "s3cret" not in repr(request)


def test_a_foreign_message_is_described_in_short() -> None:
    headers = (("subscription", "s\n" * 999), ("destination", "\x1b" * 999))
    assert foreign_message(Frame("MESSAGE", headers)).isprintable()
    assert len(foreign_message(Frame("MESSAGE", headers))) < 1_000


class TestFrame:
    def test_the_first_of_repeated_headers_counts(self) -> None:
        """STOMP 1.2, "Repeated Header Entries"."""
        frame = Frame("MESSAGE", (("foo", "World"), ("foo", "Hello")))
        assert (frame.get("foo"), frame.get("no"), frame.get("no", "bar")) == ("World", None, "bar")

    def test_shows_no_values_and_no_body(self) -> None:
        shown = repr(Frame("CONNECT", (("login", "me"), ("passcode", "secret")), b"hidden"))
        assert shown == "<Frame CONNECT [login, passcode] 6 bytes>"

    def test_travels(self) -> None:
        frame = Frame("SEND", (("a", "b"),), b"\0")
        assert pickle.loads(pickle.dumps(frame)) == frame
