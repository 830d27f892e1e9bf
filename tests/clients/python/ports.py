"""Ports for servers that a program starts.

A port that the system assigns can be taken by an outgoing connection before the server listens on
it. These are below the range of such ports.
"""

import random
import socket


def free_port():
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
