"""STOMP 1.1 and 1.2, "Protocol Negotiation"."""

from __future__ import annotations

import pytest

from spark_stomp.errors import VersionError
from spark_stomp.protocol import ErrorReceived, Frame
from spark_stomp.protocol.versions import check_refusal, client_version, server_version

ALL = ("1.2", "1.1", "1.0")


@pytest.mark.parametrize(
    ("offered", "named", "version"),
    [
        (ALL, "1.1", "1.1"),
        (ALL, "1.2", "1.2"),
        (ALL, None, "1.0"),
        (ALL, "", "1.0"),
        (("lenient",), None, "lenient"),
        (("lenient",), "1.0", "lenient"),
        (("lenient", "1.0"), "1.0", "1.0"),
        (("lenient", "1.0"), None, "lenient"),
        (("1.2", "lenient"), "1.2", "1.2"),
    ],
)
def test_what_connected_settles(offered: tuple[str, ...], named: str | None, version: str) -> None:
    assert client_version(offered, named) == version


@pytest.mark.parametrize(
    ("offered", "named", "said"),
    [
        (("1.2",), "1.1", "version:1.1"),
        (("1.2",), None, "no version, which means 1.0"),
        (ALL, "2.0", "version:2.0"),
        (("lenient",), "1.1", "version:1.1"),
        (("1.2", "lenient"), "lenient", "version:lenient"),
    ],
)
def test_a_version_that_was_not_offered(offered: tuple[str, ...], named: str | None, said: str) -> None:
    with pytest.raises(VersionError, match=f"offered STOMP {', '.join(offered)}, but CONNECTED says {said}"):
        client_version(offered, named)


class TestRefusal:
    def error(self, versions: str | None) -> ErrorReceived:
        named = () if versions is None else (("version", versions),)
        return ErrorReceived(Frame("ERROR", (*named, ("message", "cannot talk to you"))))

    @pytest.mark.parametrize("versions", [None, "", "1.0,1.1,1.2", "1.2,2.0"])
    def test_another_error_is_left_alone(self, versions: str | None) -> None:
        check_refusal(("1.2",), self.error(versions))

    def test_says_what_the_broker_has(self) -> None:
        with pytest.raises(
            VersionError, match=r"offered STOMP 1\.2, but the broker has 1\.1, 2\.0: cannot talk"
        ):
            check_refusal(("1.2",), self.error("1.1,2.0"))

    def test_the_lenient_dialect_counts_as_1_0(self) -> None:
        check_refusal(("lenient",), self.error("1.0"))
        with pytest.raises(VersionError):
            check_refusal(("lenient",), self.error("1.1"))


class TestServer:
    def test_takes_the_best(self) -> None:
        assert server_version("1.0,1.1,3.0", ALL, lenient=False) == "1.1"

    def test_silence_means_1_0(self) -> None:
        assert server_version(None, ALL, lenient=False) == "1.0"

    def test_silence_of_a_lenient_client_means_lenient_where_that_is_supported(self) -> None:
        assert server_version(None, (*ALL, "lenient"), lenient=True) == "lenient"
        assert server_version(None, ALL, lenient=True) == "1.0"
        assert server_version("1.0", (*ALL, "lenient"), lenient=True) == "1.0"

    @pytest.mark.parametrize("offered", ["2.0", "", None])
    def test_nothing_in_common(self, offered: str | None) -> None:
        with pytest.raises(VersionError, match=r"supported are 1\.2"):
            server_version(offered, ("1.2",), lenient=False)
