"""Serve published windows over HTTP, with a web page.

- ``settings``: what is served, to whom, and within which limits
- ``keys``, ``requests``: keys, moments and limits in requests
- ``answers``: results as JSON and Arrow, and errors as JSON problems
- ``service``: the reader, its threads and its refresh
- ``metrics``, ``guard``: counts; tokens, and the checks before every request
- ``openapi``: the description of the API
- ``app``: the paths, and the files of the web page
- ``connections``: clients' connections, and their limits
- ``logs``, ``server``: the log, and the processes that serve

The command is in ``mta.cli.serving``. It needs the extra "serve". The files of the web page are in
the folder static, and load nothing from elsewhere.
"""
