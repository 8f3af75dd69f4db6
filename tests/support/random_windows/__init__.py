"""Random operations on every kind of window, against plain lists.

``kinds`` are the events and what is computed of them, ``rules`` the frames in plain Python,
``lists`` what a window must be, ``hostile`` what users should never give, ``windows`` and ``due``
the windows with all that may be done with them, and ``scenarios`` the lives that they lead.
"""
