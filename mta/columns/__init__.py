"""Columns: how values and partials lie in memory and in pages."""
