"""Finds out whether other sources of the same driver read the same queues: each would get a part of them.

Users of Kafka load a topic twice, with a filter each, and both have all of it. Of a queue each message goes
to one reader, and what that filters out is gone. Spark does not tell a source that there are others. So each
has a small file in a private folder of this machine while it runs, and looks for those of others. Nothing
depends on them.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from spark_stomp.brokers.rabbitmq import stream_name
from spark_stomp.files import FILE_ERRORS, PRIVATE_FOLDER, create_file
from spark_stomp.logs import get_log
from spark_stomp.options import SourceOptions
from spark_stomp.quoting import listed
from spark_stomp.source.process_end import started_by_spark
from spark_stomp.status.files import is_gone
from spark_stomp.status.source import RunIdentity

log = get_log(__name__)

# Files that are looked at, and bytes of each.
_MOST: Final = 1_000
_LARGEST: Final = 1 << 20


class Neighbours:
    """The file of one source, and what those of others say.

    Attributes:
        sharing: the queries of this driver that read one of the queues too, this one among them if another of
            its sources does.
    """

    def __init__(self, options: SourceOptions, identity: RunIdentity) -> None:
        self.sharing: tuple[str, ...] = ()
        dialect = options.connection.dialect(None)
        queues = [stream_name(one) for one in options.queues if not dialect.is_topic(one)]
        self._own: dict[str, Any] = {
            "query": identity.query,
            "run": identity.run,
            "host": platform.node(),
            "pid": os.getpid(),
            "driver": identity.driver,
            "addresses": [one.address for one in options.connection.endpoints],
            "virtual_host": options.connection.virtual_host,
            "queues": queues,
            "selector": options.selector,
        }
        self._folder = Path(tempfile.gettempdir()) / f"spark_stomp-{os.getuid()}"
        self._path: Path | None = None

    def join(self) -> None:
        """Let others know, and look for them. Only a process that Spark has started has such a driver."""
        if not self._own["queues"] or not started_by_spark():
            return
        path = self._folder / f"{self._own['run']}.json"
        with suppress(*FILE_ERRORS):
            self._folder.mkdir(PRIVATE_FOLDER, exist_ok=True)
            if self._is_private():
                with os.fdopen(create_file(path), "w") as file:
                    json.dump(self._own, file)
                self._path = path
        self.look()

    def look(self) -> None:
        """Look for others, and log once if one reads the same queue."""
        if self._path is None:
            return
        found: dict[str, list[str]] = {}
        with suppress(TypeError, AttributeError, *FILE_ERRORS):
            for path in sorted(self._folder.glob("*.json"))[:_MOST]:
                if (
                    path != self._path
                    and (other := _read(path)) is not None
                    and (both := self._shared(other))
                ):
                    found.setdefault(str(other.get("query")), []).extend(both)
        if found and not self.sharing:
            log.warning(
                "another source of this program (query %s) reads %s too. A message goes to one of the two, "
                "so what one filters out the other never sees. Read the queue once: use one DataFrame in one "
                "query, split the rows in foreachBatch, or write all to a table and read that",
                listed([*found]),
                listed(sorted({name for names in found.values() for name in names})),
            )
        self.sharing = tuple(found)

    def leave(self) -> None:
        """This source has ended."""
        if self._path is not None:
            with suppress(*FILE_ERRORS):
                self._path.unlink(missing_ok=True)

    def _is_private(self) -> bool:
        """Whether nobody else can have put a file there."""
        there = self._folder.lstat()
        return there.st_uid == os.getuid() and there.st_mode & 0o777 == PRIVATE_FOLDER

    def _shared(self, other: dict[str, Any]) -> list[str]:
        own = self._own
        if any(other.get(key) != own[key] for key in ("host", "driver", "virtual_host")):
            return []
        apart = None not in (other.get("selector"), own["selector"]) and other["selector"] != own["selector"]
        if apart or not {*other.get("addresses", ())} & {*own["addresses"]}:
            return []
        return sorted({*other.get("queues", ())} & {*own["queues"]})


def _read(path: Path) -> dict[str, Any] | None:
    """What is in the file of a source that lives; None, and without its file, if it was killed."""
    with suppress(ValueError, TypeError, RecursionError, *FILE_ERRORS), path.open("rb") as file:
        status = json.loads(file.read(_LARGEST))
        if not is_gone(status):
            return dict(status)
        path.unlink(missing_ok=True)
    return None
