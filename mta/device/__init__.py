"""Windows on a device that run by themselves: events from MQTT or lines, results to either.

- ``config``: the file of settings
- ``events``: messages and lines as events
- ``windows``: the windows of each key, their state on disk, and results
- ``links``: where events come from and results go: standard input and output, MQTT
- ``loop``: takes events, writes snapshots, acknowledges, and tells systemd
"""
