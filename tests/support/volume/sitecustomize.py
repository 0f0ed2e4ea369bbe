"""Imported by Python itself where a test has put this folder on the path: see :mod:`support.databricks`."""

from support.databricks import mount_from_environment

mount_from_environment()
