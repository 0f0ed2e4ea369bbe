"""Evidence from the query's checkpoint: ``commits/N`` shows that batch N is committed, ``offsets/N`` its end.

Reads what Spark wrote there, and writes only fence files, in a separate folder. Works with any file system
that ``pyarrow.fs`` knows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow.fs as fs

from spark_stomp.errors import CheckpointMismatch, CheckpointUnreadable
from spark_stomp.files import FILE_ERRORS, make_folder, open_file, resolve, without_credentials
from spark_stomp.quoting import whole_number
from spark_stomp.source.offsets import Offset

_FENCES = "spark_stomp/fences"
# How many fence files stay. Each belongs to another batch, and Spark keeps the offsets of the last 100: an
# older driver finds no evidence of a batch that is not among them.
_MOST_FENCES = 100
# How many of the offset log's newest entries are searched for a planned batch.
_LOG_VERSIONS_READ = 2


class Checkpoint:
    """The checkpoint under ``location``, a path or URI as given to Spark.

    Commits that exist when this object is made belong to earlier runs, and are not among
    :meth:`new_commits`. Every method raises CheckpointUnreadable if the file system fails. The constructor
    also raises CheckpointMismatch if no file system has this location. :meth:`new_commits` and
    :meth:`committed_end` may be called from one thread only, the others from any.
    """

    def __init__(self, location: str) -> None:
        self.location = without_credentials(location)
        try:
            self._directory = resolve(location)
        except ValueError as error:
            raise CheckpointMismatch(
                f"checkpointLocation {self.location} cannot be opened: {error}"
            ) from error
        self._files, self._root = self._directory.files, self._directory.root
        self._examined = max(self._batches("commits"), default=-1)

    @property
    def on_local_disk(self) -> bool:
        """Whether listing a folder of the checkpoint is cheap, as on a local disk.

        False for an object store, and for a mount of one.
        """
        return self._directory.takes_appends

    def new_commits(self) -> list[int]:
        """The batch ids in the commit log that were not examined yet, newest first."""
        return sorted((batch for batch in self._batches("commits") if batch > self._examined), reverse=True)

    def committed_end(self, commits: Sequence[int], ends: Sequence[Offset]) -> Offset | None:
        """The newest of ``ends`` that the offset log holds for one of ``commits`` (newest first), or None.

        ``ends`` must be taken after ``commits`` was listed. Then ``ends`` includes every end that those
        batches can have, and they are not examined again. If a batch cannot be read, all are examined again
        next time.
        """
        held = (self._held(batch, ends) for batch in commits)
        found = next((end for end in held if end is not None), None)
        self._examined = max([self._examined, *commits])
        return found

    def last_commit_holds(self, end: Offset) -> bool:
        """Whether the newest committed batch, of this run or of an earlier one, ended at ``end``."""
        newest = max(self._batches("commits"), default=None)
        return newest is not None and self._held(newest, [end]) is not None

    def batch_of(self, end: Offset) -> int | None:
        """Which of the newest two entries of the offset log holds ``end``; None if neither does.

        If it stays None after a batch up to ``end`` was planned, the checkpoint is another query's, or
        Spark does not log every batch.
        """
        newest = sorted(self._batches("offsets"), reverse=True)[:_LOG_VERSIONS_READ]
        return next((batch for batch in newest if self._held(batch, [end]) is not None), None)

    def fence(self, logs: Iterable[str]) -> None:
        """Write fence files, so that an older driver with ``logs`` takes no later commit as evidence."""
        with self._file_errors("written to"):
            folder = f"{self._root}/{_FENCES}"
            self._make_folder(folder)
            known = self._files.get_file_info(fs.FileSelector(folder))
            for info in sorted(known, key=lambda info: info.mtime_ns or 0)[:-_MOST_FENCES]:
                with suppress(FileNotFoundError):
                    self._files.delete_file(info.path)
            for one in logs:
                self._make_file(f"{folder}/{one}")

    def fenced(self, logs: Iterable[str]) -> bool:
        """Whether another reader has written a fence file for one of ``logs``."""
        paths = [f"{self._root}/{_FENCES}/{one}" for one in logs]
        with self._file_errors("read"):
            infos = self._files.get_file_info(paths)
        return any(info.type != fs.FileType.NotFound for info in infos)

    def _make_folder(self, path: str) -> None:
        if self._directory.is_local:
            make_folder(Path(path))
        else:
            self._files.create_dir(path, recursive=True)

    def _make_file(self, path: str) -> None:
        if self._directory.is_local:
            os.close(open_file(Path(path), os.O_WRONLY | os.O_CREAT))
        else:
            self._files.open_output_stream(path).close()

    def _batches(self, log: str) -> list[int]:
        selector = fs.FileSelector(f"{self._root}/{log}", allow_not_found=True)
        with self._file_errors("read"):
            infos = self._files.get_file_info(selector)
        # Digits only: the log also has temporary files and checksums while Spark writes.
        numbers = [whole_number(info.base_name) for info in infos]
        return [number for number in numbers if number is not None]

    def _held(self, batch: int, ends: Sequence[Offset]) -> Offset | None:
        with self._file_errors("read"):
            try:
                with self._files.open_input_file(f"{self._root}/offsets/{batch}") as file:
                    content = file.read().decode("utf-8")
            except FileNotFoundError:
                return None
        return next((end for end in reversed(ends) if _mentions(content, end.to_json())), None)

    @contextmanager
    def _file_errors(self, done: str) -> Iterator[None]:
        try:
            yield
        except FILE_ERRORS as error:
            raise CheckpointUnreadable(
                f"checkpointLocation {self.location} cannot be {done}: {self._directory.words(error)}"
            ) from None


def _mentions(content: str, offset: str) -> bool:
    # The log has the offset as a line, or as a string inside JSON. The offset contains random ids, so nothing
    # else can match.
    return offset in content or json.dumps(offset)[1:-1] in content
