"""Results now and then: triggers, and windows that give results when they are due.

- ``rules``: at which moments
- ``triggered``, ``sliced``: windows over events, and over slices
- ``shared``: several windows over one stream
- ``handle``: the format of their handles
"""
