"""``register(spark)``, which also checks that the Python that Spark starts can run this package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from spark_stomp.errors import WrongPython
from spark_stomp.spark.datasource import StompDataSource
from spark_stomp.spark.error_texts import plainly
from spark_stomp.spark.versions import is_known_already

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED: Final = ("spark_stomp", "pyarrow", "numpy")
_PROBE: Final = (
    "import importlib.util, json, sys; "
    "missing = [name for name in sys.argv[1:] if importlib.util.find_spec(name) is None]; "
    "print(json.dumps([sys.version_info[:2], missing]))"
)
# Seconds for an interpreter to start, on a cold disk of a busy machine. A judgement, not measured.
_TIMEOUT: Final = 60.0
_PLATFORM: Final = "DATABRICKS_RUNTIME_VERSION"


@plainly
def register(spark: SparkSession) -> None:
    """Make ``format("stomp")`` known to ``spark``. Not needed if Spark finds the package automatically.

    Raises:
        WrongPython: Spark runs Python code in an interpreter that cannot run this package. This is not
            checked over Spark Connect, where the interpreter is on another machine, nor on Databricks, which
            provides it.
    """
    if _PLATFORM not in os.environ:
        _check_python(spark)
    try:
        spark.dataSource.register(StompDataSource)
    except PySparkException as error:
        if not is_known_already(error):
            raise


def _check_python(spark: Any) -> None:
    context = getattr(spark, "sparkContext", None)  # a session of Spark Connect has none
    name = getattr(context, "pythonExec", None)
    if not isinstance(name, str) or _is_this(name):
        return
    problem = _problem_of(name)
    if problem:
        raise WrongPython(
            f"Spark runs Python code with {_shown(name)}, {problem}; this is {sys.executable}. Before the "
            'session is made, set os.environ["PYSPARK_PYTHON"] = sys.executable. With spark-submit, set '
            f"--conf spark.pyspark.python={sys.executable}"
        )


def _is_this(name: str) -> bool:
    """Whether ``name`` is this interpreter. Links are not resolved: two environments may link to one file."""
    found = shutil.which(name)
    if found is None or not sys.executable:
        return not sys.executable
    return Path(found).absolute() == Path(sys.executable).absolute()


def _shown(name: str) -> str:
    found = shutil.which(name)
    return name if found in (None, name) else f"{found} ({name} on the PATH)"


def _problem_of(name: str) -> str:
    """Why the interpreter ``name`` cannot run our tasks; empty if it can, or if it did not say."""
    try:
        run = subprocess.run(
            [name, "-c", _PROBE, *_NEEDED], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return ""
    except OSError as error:
        return f"which does not start here ({error.strerror})"
    try:
        version, missing = json.loads(run.stdout)
    except ValueError:
        return ""
    if missing:
        return f"which has no {' and no '.join(missing)}"
    if tuple(version) != sys.version_info[:2]:
        return (
            f"which is Python {version[0]}.{version[1]} and not {sys.version_info[0]}.{sys.version_info[1]}"
        )
    return ""
