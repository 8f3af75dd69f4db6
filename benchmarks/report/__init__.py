"""What every experiment shares: what it is made of, tables, plots and the report of a run."""
