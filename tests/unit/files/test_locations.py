"""Locations: where they lead, and what of them may be shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_stomp.files import resolve, without_credentials


@pytest.mark.parametrize(
    ("location", "root", "takes_appends"),
    [
        ("file:/data/a%20b", "/data/a%20b", True),
        ("/data/missing/../a b/./c//", "/data/a b/c", True),
        ("file:///data/missing/../journal", "/data/journal", True),
        ("dbfs:/mnt/x/../journal", "/dbfs/mnt/journal", False),
        ("dbfs:///mnt/journal", "/dbfs/mnt/journal", False),
        ("dbfs:/Volumes/main/a/b", "/Volumes/main/a/b", False),
        ("/Volumes/main/a/b", "/Volumes/main/a/b", False),
        ("file:/dbfs/mnt", "/dbfs/mnt", False),
        ("/dbfs", "/dbfs", False),
        ("/dbfsx/journal", "/dbfsx/journal", True),
    ],
)
def test_paths_of_this_machine(location: str, root: str, takes_appends: bool) -> None:
    place = resolve(location)
    assert place.is_local
    assert (place.root, place.takes_appends, place.shown) == (root, takes_appends, location)


def test_a_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve("journal").root == str(tmp_path / "journal")


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_hadoops_names_for_s3(scheme: str) -> None:
    place = resolve(f"{scheme}://bucket/x/../a/b/?region=eu-west-1&endpoint_override=127.0.0.1:9")
    assert (place.files.type_name, place.files.region, place.root) == ("s3", "eu-west-1", "bucket/a/b")
    assert not place.is_local
    assert not place.takes_appends


@pytest.mark.parametrize("path", ["a b/ä", "a%20b", "a+b@c:d"])
def test_nothing_in_a_path_is_an_escape(path: str) -> None:
    assert resolve(f"s3a://bucket/{path}?region=eu-west-1").root == f"bucket/{path}"


@pytest.mark.parametrize("location", ["nosuchfs://bucket/x", "s3://bucket/x?nonsense=1"])
def test_where_nothing_can_be(location: str) -> None:
    with pytest.raises(ValueError, match="URI"):
        resolve(location)


class TestCredentials:
    @pytest.mark.parametrize(
        ("location", "shown"),
        [
            ("s3://bucket/a?region=x", "s3://bucket/a"),
            ("s3://AKIA:tops3cret@bucket/a", "s3://***@bucket/a"),
            ("s3://AKIA:tops%2F3cret@bucket/a", "s3://***@bucket/a"),
            ("s3://AKIA:top/s3cret@bucket/a", "s3://***@bucket/a"),
            ("s3:AKIA:tops3cret@bucket/a", "s3:***@bucket/a"),
            ("s3:/AKIA:tops3cret@bucket/a", "s3:/***@bucket/a"),
            ("abfss://container@account.dfs.example/a", "abfss://container@account.dfs.example/a"),
            ("/data/a@b", "/data/a@b"),
        ],
    )
    def test_are_not_shown(self, location: str, shown: str) -> None:
        assert without_credentials(location) == shown

    @pytest.mark.parametrize(
        "location",
        [
            "nosuchfs://AKIA:tops3cret@bucket/a",
            "s3://AKIA:tops3cret/x@bucket/a",
            "nosuchfs://bucket/a?access_key=tops3cret",
            "s3://bucket/a?sas_token=tops3cret&more=1",
        ],
    )
    def test_are_not_in_errors(self, location: str) -> None:
        with pytest.raises(ValueError, match="URI") as caught:
            resolve(location)
        assert "tops3cret" not in str(caught.value)

    def test_are_not_in_what_a_store_says(self) -> None:
        place = resolve("s3://AKIA:tops%2F3cret@bucket/a?region=x")
        said = place.words(OSError("no access with AKIA:tops/3cret, tops%2F3cret"))
        assert said == "no access with ***, ***"
        assert "3cret" not in repr(place)
