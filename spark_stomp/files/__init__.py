"""What touches the file system: locations of journal and checkpoint, private files, durable writes."""
