"""Published windows over HTTP, and a page for people.

- ``settings``: what is served, to whom, and within which limits
- ``keys``, ``requests``: keys, moments and limits as requests write them
- ``answers``, ``problems``: results as JSON and Arrow; errors as JSON problems
- ``service``, ``lookups``: the reader, its threads, and what follows new snapshots; requests of
  single keys, put together
- ``metrics``, ``guard``: counts; tokens and what stands before every request
- ``openapi``, ``pages``: the description of the API; the files of the page
- ``app``, ``connections``, ``server``: the paths; connections of clients; the processes that serve

The command is in ``mta.cli.serving``. It needs the extra "serve". The files of the page are in the
folder static, and load nothing from elsewhere.
"""
