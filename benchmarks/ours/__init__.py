"""Our own figures, beside peers."""
