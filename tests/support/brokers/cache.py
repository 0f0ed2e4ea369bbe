"""Where brokers come from, and where they are kept between runs."""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

from support.brokers.process import Unavailable, run

_DEFAULT = Path(__file__).resolve().parents[3] / ".brokers"


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """The folder ``name`` of the cache, made by ``make`` where it is not there yet.

    The cache is ``.brokers`` beside the sources, or what SPARK_STOMP_BROKERS names.
    """
    cache = Path(os.environ.get("SPARK_STOMP_BROKERS") or _DEFAULT).resolve()
    folder = cache / name
    if not folder.exists():
        # Made under another name first: a run that is cut off leaves no half-made folder behind.
        making = cache / f".{name}.{os.getpid()}"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        make(making)
        try:
            making.rename(folder)
        except OSError:  # somebody else was faster
            shutil.rmtree(making)
    return folder


def debian_packages(package: str, also: re.Pattern[str], into: Path) -> None:
    """Unpack a package, and those it depends on whose names match ``also``, without installing anything."""
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{package} comes as a Debian package, and there is no {tool} here")
    others = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    listed = run("apt-cache", "depends", "--recurse", *(f"--no-{kind}" for kind in others), package)
    names = set(re.findall(r"^ *(?:Pre)?Depends: ([\w.+-]+)$", listed, re.MULTILINE))
    run("apt-get", "download", package, *sorted(filter(also.match, names)), folder=into)
    for archive in into.glob("*.deb"):
        run("dpkg-deb", "--extract", archive, into)
        archive.unlink()


def maven_archive(artifact: str, into: Path) -> None:
    """Unpack a ``tar.gz`` distribution into the folder, without its own top folder."""
    maven_file(artifact, into)
    (archive,) = into.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(into, filter="data")
    archive.unlink()
    (top,) = into.iterdir()
    for item in top.iterdir():
        item.rename(into / item.name)
    top.rmdir()


def maven_file(artifact: str, into: Path) -> None:
    """Copy one artifact (``group:name:version:type:classifier``) into the folder."""
    _maven("dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={into}")


def maven_libraries(pom: Path, into: Path) -> None:
    """Copy what ``pom`` depends on, with all that this needs in turn, into the folder."""
    _maven(
        f"--file={pom}", "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={into}"
    )


def java() -> str:
    """The path of Java."""
    home = os.environ.get("JAVA_HOME")
    found = (home and shutil.which("java", path=f"{home}/bin")) or shutil.which("java")
    if not found:
        raise Unavailable("there is no Java here")
    return found


def _maven(*arguments: str) -> None:
    if shutil.which("mvn") is None:
        raise Unavailable("there is no Maven here to fetch it with (on Debian: apt-get install maven)")
    run("mvn", "--quiet", "--batch-mode", *arguments)
