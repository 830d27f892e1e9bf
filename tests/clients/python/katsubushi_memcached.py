"""The bytes that katsubushi's own clients send to its memcached port, in the text and the binary
protocol.

Its Go client sends `GETS` in upper case and expects values without a CAS. memcached's clients send
`gets` and expect one.
"""

import re
import socket
import struct

from checks import MEMCACHED, check, done, equal, host_port

GET, STAT, VERSION, SET = 0x00, 0x10, 0x0B, 0x01
UNKNOWN_COMMAND = 0x0081


class Raw:
    def __init__(self):
        self.socket = socket.create_connection(host_port(MEMCACHED), 5)
        self.file = self.socket.makefile("rb")

    def text(self, line, end=rb"END|ERROR|VERSION.*"):
        """The lines of the response, up to one that ends it."""
        self.socket.sendall(line + b"\r\n")
        lines = []
        while not lines or not re.fullmatch(end, lines[-1]):
            received = self.file.readline()
            if not received:
                break
            lines.append(received.rstrip(b"\r\n"))
        return lines

    def packet(self, opcode, key=b"", extras=b"", value=b""):
        """The key, the value and the status of the response to a binary request."""
        body = extras + key + value
        head = struct.pack("!BBHBBHIIQ", 0x80, opcode, len(key), len(extras), 0, 0, len(body), 7, 0)
        self.socket.sendall(head + body)
        return self.response()

    def response(self):
        head = struct.unpack("!BBHBBHIIQ", self.file.read(24))
        magic, _, key_length, extras_length, _, status, length, opaque, _ = head
        if (magic, opaque) != (0x81, 7):
            check("magic and opaque of the response", False, (magic, opaque))
        body = self.file.read(length)
        rest = body[extras_length:]
        return rest[:key_length], rest[key_length:], status


def text():
    raw = Raw()
    lines = raw.text(b"GETS id")
    value = re.fullmatch(rb"VALUE id 0 (\d+)", lines[0])
    check("GETS: four words, no CAS", value and len(lines[1]) == int(value[1]), lines)
    check("GETS: the end", lines[2:] == [b"END"], lines[2:])
    many = raw.text(b"GETS a b c")
    equal("GETS of three keys", [line.split()[1] for line in many[:-1:2]], [b"a", b"b", b"c"])
    words = raw.text(b"gets id")[0].split()
    equal("gets: five words, a CAS", (words[:3], len(words)), ([b"VALUE", b"id", b"0"], 5))
    equal("get: four words", len(raw.text(b"get id")[0].split()), 4)
    equal("Get in another case", raw.text(b"Get id")[-1], b"END")
    stats = dict(line.split(None, 2)[1:] for line in raw.text(b"STATS")[:-1])
    names = {b"pid", b"uptime", b"time", b"version", b"curr_connections", b"total_connections"}
    names |= {b"cmd_get", b"get_hits", b"get_misses"}
    check("STATS has the names of katsubushi", names <= set(stats), sorted(names - set(stats)))
    check("VERSION", raw.text(b"VERSION")[0].startswith(b"VERSION "), "a version")
    equal("an unknown command", raw.text(b"touch id 0"), [b"ERROR"])
    equal("get without a key", raw.text(b"get"), [b"ERROR"])
    equal("storage and its data", raw.text(b"set id 0 0 3\r\nget"), [b"ERROR"])
    equal("the next command", raw.text(b"get id")[-1], b"END")
    equal("QUIT closes", raw.text(b"QUIT"), [])


def binary():
    raw = Raw()
    _, first, status = raw.packet(GET, b"id")
    check("binary get", status == 0 and first.isdigit(), (first, status))
    _, second, _ = raw.packet(GET, b"id")
    check("binary get again", int(second) > int(first), second)
    _, version, status = raw.packet(VERSION)
    check("binary version", status == 0 and len(version) > 0, version)
    names = []
    key, _, status = raw.packet(STAT)
    while key:
        names.append(key)
        key, _, status = raw.response()
    check("binary stat", status == 0 and b"uptime" in names, len(names))
    _, _, status = raw.packet(SET, b"id", bytes(8), b"1")
    equal("binary set", status, UNKNOWN_COMMAND)
    check("binary get after it", raw.packet(GET, b"id")[2] == 0, "status 0")


text()
binary()
done()
