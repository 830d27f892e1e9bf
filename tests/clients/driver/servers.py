"""The servers that the clients call: given by address, or started here and stopped at the end."""

import os
import re
import socket
import subprocess
import threading
import time

from cluster import free_ports
from driver.outcomes import Failed, need

START_LIMIT_S = 30


class Servers:
    def __init__(self, options, scratch):
        self.scratch, self.binary, self.target = scratch, options.binary, options.target
        self.redis, self.memcached, self.http = options.redis, options.memcached, options.http
        self.started, self.redis_server = [], None
        self.starting = threading.Lock()

    def __enter__(self):
        try:
            if self.target == "redis":
                self.redis = self.redis or self.start_redis()
            elif not (self.redis or self.memcached or self.http):
                self.start_demo()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for process in self.started:
            process.terminate()
        for process in self.started:
            process.wait(START_LIMIT_S)

    def start_redis(self):
        """Starts a redis-server without a file, and returns its address."""
        need(["redis-server"])
        (port,) = free_ports(1)
        options = ["--port", str(port), "--save", "", "--dir", str(self.scratch)]
        self.spawn("redis-server", "redis-server", *options)
        self.wait(
            "redis-server", lambda: socket.create_connection(("127.0.0.1", port)).close() or True
        )
        return f"127.0.0.1:{port}"

    def start_demo(self):
        """Starts `seqd demo` and reads the addresses that it prints."""
        process, log = self.spawn("demo", str(self.binary), "demo")

        def printed():
            if process.poll() is not None:
                raise Failed(f"{self.binary} demo ended: {log.read_text()[-300:]}")
            text = log.read_text()
            # The other protocols follow the nodes' lines.
            return text if len(re.findall("http://", text)) >= 3 and "pages" in text else None

        text = self.wait("seqd demo, with the addresses of all protocols,", printed)
        for name in ("redis", "memcached"):
            line = re.search(rf"^ *{name} .*$", text, re.MULTILINE)
            addresses = re.findall(r"127\.0\.0\.1:\d+", line[0]) if line else []
            setattr(self, name, ",".join(addresses))
        self.http = re.search(r"http://\S+", text)[0]

    def spawn(self, name, *command):
        log = self.scratch / f"{name}.log"
        with open(log, "w") as file:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        self.started.append(process)
        return process, log

    def wait(self, what, ready):
        end = time.monotonic() + START_LIMIT_S
        while time.monotonic() < end:
            try:
                if value := ready():
                    return value
            except OSError:
                pass
            time.sleep(0.1)
        raise Failed(f"{what} was not ready within {START_LIMIT_S} s")

    def words(self, words):
        """The words of a command with the addresses filled in."""
        with self.starting:
            if any("{redis_server}" in word for word in words) and not self.redis_server:
                self.redis_server = self.start_redis()
        redis = (self.redis or "").split(",")[0]
        return [
            word.format(redis_server=self.redis_server, redis=redis, binary=self.binary)
            for word in words
        ]

    def has(self, port):
        return bool(getattr(self, port))

    def environment(self):
        """The addresses as environment variables of the programs, and a prefix for their names."""
        run = "r" + os.urandom(4).hex()
        variables = {"TARGET": self.target, "RUN": run, "PYTHONDONTWRITEBYTECODE": "1"}
        if self.redis:
            variables |= {"REDIS": self.redis.split(",")[0], "REDIS_ALL": self.redis}
        if self.memcached:
            variables["MEMCACHED"] = self.memcached.split(",")[0]
        if self.http:
            variables["HTTP"] = self.http.split(",")[0].rstrip("/")
        return os.environ | variables
