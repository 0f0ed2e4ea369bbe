"""The sink: rows become SEND frames, and a task succeeds only once the broker has confirmed every one."""
