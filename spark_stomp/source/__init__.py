"""The source: offsets, admission and planning (pure), commit evidence, and the readers that Spark drives."""
