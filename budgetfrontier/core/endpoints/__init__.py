"""Rules for whatever listens or is connected to: addresses, sockets, tokens, and the limit of open files.

The server, workers, the console, the metrics, the broker of ZeroMQ and their clients have them from here.
"""
