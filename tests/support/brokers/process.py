"""A server's process: in its own session, with its output in a file, ended by its id."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from support.waiting import wait_until

_GOODBYE = 20.0


class Unavailable(Exception):
    """This broker is not available on this machine; the text says why."""


class Process:
    """A running command and everything that it starts in its session. It works in ``folder``, if given."""

    def __init__(
        self,
        command: Sequence[str | Path],
        log: Path,
        environment: Mapping[str, str],
        folder: Path | None = None,
    ) -> None:
        self.log = log
        self.hangs = False
        # No server outlives a test run that was killed.
        setpriv = shutil.which("setpriv")
        prefix = [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []
        with log.open("ab") as output:
            self._begins = output.tell()
            self._process = subprocess.Popen(
                [*prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                cwd=folder,
                start_new_session=True,
            )

    def wait_ready(self, ready: Callable[[], bool], timeout: float = 90.0) -> None:
        """Wait until ``ready()``; Unavailable with the end of the log where the process ends before."""

        def settled() -> bool:
            return self._process.poll() is not None or ready()

        try:
            wait_until(settled, timeout, "the server's start")
        except AssertionError:
            self.kill()
            raise Unavailable(f"not ready within {timeout:g}s; its log ends:\n{self._tail()}") from None
        if self._process.poll() is not None:
            raise Unavailable(f"it ended with status {self._process.returncode}; its log:\n{self._tail()}")

    def wait_ended(self, timeout: float = 60.0) -> None:
        """Wait until it has ended, and insist after ``timeout`` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        self.kill()

    def stop(self, timeout: float = _GOODBYE) -> None:
        """Ask it to end, and insist after ``timeout`` seconds."""
        self.resume()
        self._process.terminate()
        self.wait_ended(timeout)

    def kill(self) -> None:
        """End it, with all that it started, at once."""
        self._signal(signal.SIGKILL)
        self._process.wait(_GOODBYE)

    def suspend(self) -> None:
        """Let it hang, with all that it started: its connections stay open, and nobody answers."""
        self.hangs = True
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after :meth:`suspend`."""
        self._signal(signal.SIGCONT)
        self.hangs = False

    @property
    def said(self) -> str:
        """What it has written since it began."""
        with self.log.open(errors="replace") as log:
            log.seek(self._begins)
            return log.read()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _tail(self) -> str:
        return self.said[-2_000:]


def run(
    *command: str | Path,
    folder: Path | None = None,
    given: str = "",
    timeout: float = 600.0,
    **variables: str,
) -> str:
    """Run a command on the input ``given`` to its end and return what it printed.

    Raises Unavailable with its last words if it fails.
    """
    environment = {**os.environ, **variables}
    try:
        result = subprocess.run(
            command, input=given, capture_output=True, text=True, timeout=timeout, cwd=folder, env=environment
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {error}") from error
    if result.returncode:
        words = (result.stdout + result.stderr).strip()[-600:]
        raise Unavailable(f"{Path(command[0]).name} failed: {words}")
    return result.stdout
