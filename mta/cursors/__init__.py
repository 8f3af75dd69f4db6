"""Cursors: windows that are fronts over events which others keep."""
