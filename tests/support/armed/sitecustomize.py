"""Imported by Python itself where a test has put this folder on the path: see :mod:`support.points`."""

from support.points import arm_from_environment

arm_from_environment()
