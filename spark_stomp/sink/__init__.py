"""The sink: rows become SEND frames, and a task succeeds only if the broker confirmed every one of them."""
