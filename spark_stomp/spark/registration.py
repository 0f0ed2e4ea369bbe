"""``register(spark)``, which also checks that the Python that Spark starts can run this package."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from spark_stomp.errors import WrongPython
from spark_stomp.spark.datasource import StompDataSource
from spark_stomp.spark.error_texts import plainly
from spark_stomp.spark.versions import is_known_already

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HERE: Final = f"{sys.version_info[0]}.{sys.version_info[1]}"
_PROBE: Final = f"""
import sys, spark_stomp, pyarrow, numpy
here = f"{{sys.version_info[0]}}.{{sys.version_info[1]}}"
here == "{_HERE}" or sys.exit(f"it is Python {{here}} and not {_HERE}")
"""
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
    if not isinstance(name, str) or shutil.which(name) == sys.executable:
        return
    try:
        run = subprocess.run(
            [name, "-c", _PROBE], capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return
    except OSError as error:
        problem = f"it does not start here ({error.strerror})"
    else:
        if not run.returncode:
            return
        problem = run.stderr.strip().rpartition("\n")[2]
    raise WrongPython(
        f"Spark runs Python code with {shutil.which(name) or name}: {problem}. This is {sys.executable}. "
        'Before the session is made, set os.environ["PYSPARK_PYTHON"] = sys.executable, or with spark-submit '
        f"--conf spark.pyspark.python={sys.executable}"
    )
