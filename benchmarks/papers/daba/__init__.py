"""The experiments of the DABA paper."""
