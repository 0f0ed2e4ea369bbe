"""The sink: rows become SEND frames, and a task succeeds only when the broker confirmed every one of them."""
