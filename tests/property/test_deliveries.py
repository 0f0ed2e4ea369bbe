"""Contract 2 and 4 against a model: receivers of one query, a broker, and connections that break anywhere."""

from __future__ import annotations

from hypothesis import settings
from property.broker_model import Query

Query.TestCase.settings = settings(
    max_examples=max(250, settings.default.max_examples), stateful_step_count=25, deadline=None
)
TestQuery = Query.TestCase
