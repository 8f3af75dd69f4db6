"""The experiments of the MTA paper."""
