"""The experiments of the FiBA paper."""
