"""The experiments of the PBA paper."""
