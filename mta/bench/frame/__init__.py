"""What every experiment shares: running, tables, plots, the report."""
