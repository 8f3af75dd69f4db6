"""Benchmarks: the papers' experiments at this machine's scale, and our figures beside peers.

They are no part of the installed package; run them from a checkout (``README.md`` beside this
file). Each folder imports only those before it:

- ``report``: what an experiment is, its tables, plots, and the report of a run
- ``papers``: the experiments of the papers, one folder per paper
- ``public``: public benchmarks of stream engines
- ``ours``: our own figures
- ``spark``: the experiments that need Spark
- ``registry``, ``running``, ``__main__``: the experiments by name, run into a folder, as a command
"""
