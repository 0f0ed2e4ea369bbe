"""Bodies as text."""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
import pytest

from spark_stomp.arrow.columns import Bodies, body_text, charset_of
from spark_stomp.errors import BodyDecodeError


def texts(*rows: tuple[bytes, str | None], on_error: Literal["error", "null"] = "error") -> list[str | None]:
    bodies = Bodies(
        pa.array([body for body, _ in rows], pa.binary()),
        pa.array([kind for _, kind in rows], pa.string()),
        pa.array([f"id-{i}" for i in range(len(rows))]),
        pa.array(["/queue/x"] * len(rows)),
    )
    column = body_text(bodies, on_error).text
    column.validate(full=True)
    assert column.type == pa.string()
    values: list[str | None] = column.to_pylist()
    return values


@pytest.mark.parametrize(
    ("content_type", "charset"),
    [
        (None, "utf-8"),
        ("text/plain", "utf-8"),
        ("text/plain;charset=latin-1", "latin-1"),
        ("text/plain; Charset = UTF-16 ; x=y", "UTF-16"),
        ('text/plain; charset="iso-8859-15"', "iso-8859-15"),
        ("text/plain; charset=", "utf-8"),
        ("text/plain; xcharset=latin-1", "utf-8"),
    ],
)
def test_charset_of(content_type: str | None, charset: str) -> None:
    assert charset_of(content_type) == charset


def test_an_empty_body_in_a_charset_that_nobody_knows() -> None:
    """It holds nothing that could be read wrongly."""
    assert texts((b"", "a;charset=none-such"), (b"x", None)) == ["", "x"]


class TestUndecodable:
    def test_names_message_destination_and_charset(self) -> None:
        with pytest.raises(BodyDecodeError) as caught:
            texts((b"ok", None), (b"\xff", None))
        text = str(caught.value)
        assert text.startswith("[STOMP_BODY_UNDECODABLE]")
        assert "'id-1'" in text
        assert "'/queue/x'" in text
        assert "not valid utf-8" in text
        assert "every restart fails on it too" in text
        assert "bodyDecodeErrors=null" in text

    @pytest.mark.parametrize("charset", ["klingon", "hex", "rot13", "idna", "unicode_escape", "undefined"])
    def test_unknown_charset(self, charset: str) -> None:
        with pytest.raises(BodyDecodeError, match=f"its charset '{charset}' is unknown"):
            texts((b"x", f"text/plain;charset={charset}"))

    @pytest.mark.parametrize("charset", ["\n\x1b" + "k" * 60_000, "utf" + "-" * 60_000 + "8"])
    def test_a_charset_is_quoted_in_short(self, charset: str) -> None:
        with pytest.raises(BodyDecodeError) as caught:
            texts((b"\xff", f"text/plain;charset={charset}"))
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 600

    def test_lone_surrogates_are_no_text(self) -> None:
        assert texts((b"+2AA-", "x;charset=utf-7"), on_error="null") == [None]

    @pytest.mark.rule("7.8")
    def test_null_with_the_reason_where_that_is_asked_for(self) -> None:
        kinds = ["a;charset=none-such", None, None]
        octets = pa.array([b"x", b"good", b"\xff"], pa.binary())
        names = pa.array(["m"] * 3)
        found = body_text(Bodies(octets, pa.array(kinds, pa.string()), names, names), "column")
        assert found.text.to_pylist() == [None, "good", None]
        assert sorted(found.reasons) == [0, 2]
        assert found.reasons[0].startswith("[STOMP_BODY_UNDECODABLE] ") and "none-such" in found.reasons[0]
