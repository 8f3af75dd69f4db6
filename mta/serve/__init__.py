"""``mta serve``: published windows over HTTP, and a page for people.

- ``settings``: what is served, to whom, and within which limits
- ``keys``, ``requests``: keys, moments and limits as requests write them
- ``answers``, ``problems``: results as JSON and Arrow; errors as JSON problems
- ``service``: the reader, its threads, and what follows new snapshots
- ``metrics``, ``guard``: counts; tokens and what stands before every request
- ``openapi``, ``pages``: the description of the API; the files of the page
- ``app``, ``server``: the paths, and the processes that serve them

It needs the extra ``serve``. The page is in ``static``, and loads nothing from elsewhere.
"""
