"""The example frames of four STOMP documents (tests/data/specs) decode as their text says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.codec import decode, scan, scanned_frames, splits

from spark_stomp.protocol import Frame, encode_frame

DOCUMENTS = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parents[1] / "data" / "specs").glob("*.json"))
}


def examples(key: str) -> list[Any]:
    """(version, example) of every example that has ``key``."""
    return [
        pytest.param(document["version"], example, id=f"{name}-{example['id']}")
        for name, document in DOCUMENTS.items()
        for example in document["frames"]
        if key in example
    ]


def octets_of(lines: list[str]) -> bytes:
    return "\n".join(lines).encode()


def frame_of(described: dict[str, Any]) -> Frame:
    headers = tuple((name, value) for name, value in described["headers"])
    return Frame(described["command"], headers, described["body"].encode())


def test_all_are_there() -> None:
    counts = {name: len(document["frames"]) for name, document in DOCUMENTS.items()}
    assert counts == {"stomp-1.0": 12, "stomp-1.0-vendor": 14, "stomp-1.1-draft": 22, "stomp-lenient": 6}


@pytest.mark.parametrize(("version", "example"), examples("wire"))
def test_decodes_as_its_text_says(version: str, example: dict[str, Any]) -> None:
    frame = frame_of(example["frame"])
    for pieces in splits(octets_of(example["wire"])):
        assert decode(version, pieces) == ([frame], 0, None)
        assert scanned_frames(version, scan(version, pieces)) == ([frame], 0, None)


@pytest.mark.parametrize(("version", "example"), examples("wire"))
def test_is_written_as_it_was_read(version: str, example: dict[str, Any]) -> None:
    """Except for the padding that the lenient dialect drops."""
    wire = octets_of(example["wire"])
    assert encode_frame(frame_of(example["frame"]), version) == (
        wire.replace(b": ", b":") if version == "lenient" else wire
    )


@pytest.mark.parametrize(("version", "example"), examples("lenient"))
def test_decodes_without_padding_in_the_lenient_dialect(version: str, example: dict[str, Any]) -> None:
    assert decode("lenient", [octets_of(example["wire"])]) == ([frame_of(example["lenient"])], 0, None)


@pytest.mark.parametrize(("version", "example"), examples("as_printed"))
def test_what_is_printed_against_the_grammar_is_refused(version: str, example: dict[str, Any]) -> None:
    assert example["note"]
    for pieces in splits(octets_of(example["as_printed"])):
        outcome = decode(version, pieces)
        assert outcome.frames == []
        assert (outcome.error is not None) == (example["as_printed_gives"] == "error")


@pytest.mark.parametrize(("version", "example"), examples("as_printed"))
def test_the_lenient_dialect_reads_padded_blank_lines(version: str, example: dict[str, Any]) -> None:
    outcome = decode("lenient", [octets_of(example["as_printed"])])
    if "ten spaces" in example["note"]:
        assert outcome == ([frame_of(example["frame"])], 0, None)
    else:
        assert outcome.frames == []
