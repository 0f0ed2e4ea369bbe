"""Access to the file system: locations of journals and checkpoints, private files, durable writes."""
