"""A connection that sends any words and returns replies as text, without a client library.

`+OK`, `:1`, `$value`, `nil`, `-ERR message`, `[:1 $a]`. A null or a type of the other version of
the protocol is `RESP2 null` or `RESP3 type`.
"""

import socket


class Connection:
    def __init__(self, address, protocol=2, timeout_s=10):
        self.socket = socket.create_connection(address, timeout_s)
        self.file = self.socket.makefile("rb")
        self.protocol = protocol
        if protocol == 3:
            self.call(["HELLO", "3"])

    def call(self, *commands):
        """Sends the commands at once and returns their replies."""
        self.socket.sendall(b"".join(encode(words) for words in commands))
        return [self.reply() for _ in commands]

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the connection was closed")
        kind, rest = line[:1], line[1:-2].decode("latin-1")
        if kind in b"_%~=#,(>" and self.protocol == 2:
            return "RESP3 type"
        if kind in b"$=":
            if rest == "-1":
                return "nil" if self.protocol == 2 else "RESP2 null"
            text = self.file.read(int(rest) + 2)[:-2].decode("latin-1")
            return "$" + (text if kind == b"$" else text[4:])
        if kind in b"*~%>":
            if rest == "-1":
                return "nil" if self.protocol == 2 else "RESP2 null"
            count = int(rest) * (2 if kind == b"%" else 1)
            return "[" + " ".join(self.reply() for _ in range(count)) + "]"
        if kind == b"_":
            return "nil"
        return line[:-2].decode("latin-1")

    def close(self):
        self.file.close()
        self.socket.close()


def encode(words):
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(
        b"$%d\r\n%s\r\n" % (len(part), part) for part in parts
    )
