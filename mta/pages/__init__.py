"""Pages and handles: their formats, and what keeps and reads them."""
