"""Imported by Python itself where a test has put this folder on the path: see :mod:`databricks_runtime`."""

from databricks_runtime import mount_from_environment

mount_from_environment()
