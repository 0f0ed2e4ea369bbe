"""A coverage-guided fuzz target for the codec (atheris, which is to say libFuzzer).

    python tests/fuzz/fuzz_codec.py --seconds 600 [--corpus DIRECTORY]

Each input chooses a version, limits and a split, and is then a stream. Of every stream it is checked that
decoder and scanner raise nothing but the declared errors, that they have one opinion, that no split changes
it, and that what was decoded can be encoded and decoded again. The process ends with a status other than 0 on
a finding and leaves the input beside the corpus.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

with atheris.instrument_imports(include=["spark_stomp.protocol"]):
    from support.codec import Outcome, decode, scan, scanned_frames

    from spark_stomp.errors import FrameEncodeError
    from spark_stomp.protocol import VERSIONS, Limits, encode_frame

LIMITS = (
    Limits(),
    Limits(max_command=8, max_header_line=24, max_headers=3, max_body=16, max_frame=64),
    Limits(max_header_line=40),
    Limits(max_body=12),
    Limits(max_frame=80),
)
PLAIN = b"MESSAGE\nmessage-id:1\nack:2\nid:3\ncontent-length:4\n\nbody\0"
SEEDS = (
    PLAIN * 4,
    PLAIN.replace(b"\n", b"\r\n") * 2,
    b"CONNECTED\nversion:1.2\nsession:ID:a-1\n\n\0\n" + PLAIN * 3 + b"RECEIPT\nreceipt-id:1\n\n\0",
    b"MESSAGE\nmessage-id:ID\\ca\nx\\\\:\\n\\r\n\n{}\0\n" * 4,
    b"SEND\na:\xc3\xa9\n\nbody\0" * 3 + b"ERROR\ncontent-length:3\n\n\0\0\0\0",
    b"message \r\nContent-Length: 2 \r\nMessage-ID: x\n \nab\0\0" * 3,
)


def pieces_of(data: bytes, sizes: bytes) -> list[bytes]:
    """``data`` in pieces of the given sizes, in turn."""
    if not sizes:
        return [data]
    pieces, place, turn = [], 0, 0
    while place < len(data):
        size = sizes[turn % len(sizes)] + 1
        pieces.append(data[place : place + size])
        place, turn = place + size, turn + 1
    return pieces


def check_round_trip(version: str, outcome: Outcome) -> None:
    for frame in outcome.frames:
        try:
            octets = encode_frame(frame, version)
        except FrameEncodeError:
            continue
        again = decode(version, [octets]).frames
        assert len(again) == 1
        same = (again[0].command, again[0].headers[: len(frame.headers)], again[0].body)
        assert same == frame or version == "lenient"


def one_input(data: bytes) -> None:
    """Three octets of settings, the sizes of the pieces, and the stream."""
    if len(data) < 4:
        return
    version, limits = VERSIONS[data[0] % len(VERSIONS)], LIMITS[data[1] % len(LIMITS)]
    count = data[2] % 6
    sizes, stream = data[3 : 3 + count], data[3 + count :]
    whole = decode(version, [stream], limits)
    assert decode(version, pieces_of(stream, sizes), limits) == whole, "a split changed the events"
    for pieces in ([stream], pieces_of(stream, sizes)):
        scanned = scan(version, pieces, limits, id_header="id")
        frames = scanned_frames(version, scanned, limits)
        assert (frames.frames, frames.error) == (whole.frames, whole.error), "the scanner disagrees"
    check_round_trip(version, whole)


def write_seeds(corpus: Path) -> None:
    corpus.mkdir(parents=True, exist_ok=True)
    for number, stream in enumerate(SEEDS):
        for version in range(len(VERSIONS)):
            (corpus / f"seed-{number}-{version}").write_bytes(bytes([version, 0, 2, 9, 40]) + stream)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600, help="how long to run")
    parser.add_argument("--corpus", type=Path, help="where inputs are kept (default: a temporary directory)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        corpus = arguments.corpus or Path(temporary) / "corpus"
        write_seeds(corpus)
        flags = [f"-max_total_time={arguments.seconds}", "-max_len=768", f"-artifact_prefix={corpus.parent}/"]
        atheris.Setup([sys.argv[0], *flags, str(corpus)], one_input)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
