"""This project's experiments, compared with other libraries."""
