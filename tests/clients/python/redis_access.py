"""redis-py and redis-cli over TLS with access tokens as passwords.

  redis_access.py SEQD_BINARY

One node runs in a temporary folder. Its operator makes a token per client.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

import redis
from checks import check, done, equal, raises, until
from cluster import free_ports
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    LockError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

OPERATOR = "operator-0123456789abcdef0123456789abcdef"


class Secured:
    """A node that requires TLS and a token."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, pathlib.Path(folder)
        self.http_port, self.redis_port, peer_port = free_ports(3)
        self.token_file = self.folder / "token"
        self.token_file.write_text(OPERATOR + "\n")
        self.token_file.chmod(0o600)
        tls = self.folder / "tls"
        self.seqd("tls", "init", "--dir", str(tls), "--nodes", "n1=localhost")
        self.ca = tls / "ca.crt"
        config = self.folder / "seqd.toml"
        config.write_text(
            f'[node]\nname = "n1"\ndata_dir = "{self.folder / "data"}"\n'
            f'[http]\nlisten = "127.0.0.1:{self.http_port}"\n'
            f'[peer]\nlisten = "127.0.0.1:{peer_port}"\npeers = ["n1=127.0.0.1:{peer_port}"]\n'
            f'[redis]\nlisten = "127.0.0.1:{self.redis_port}"\n'
            f'[tls]\ncert = "{tls / "n1.crt"}"\nkey = "{tls / "n1.key"}"\n'
            f'[auth]\nenabled = true\nbootstrap_token_file = "{self.token_file}"\n'
        )
        with open(self.folder / "log", "w") as log:
            command = [self.binary, "server", "--config", str(config)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def seqd(self, *words):
        return subprocess.run(
            [self.binary, *words], capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()

    def token(self, *scopes):
        endpoint = ["-e", f"https://localhost:{self.http_port}", "--cacert", str(self.ca)]
        words = [word for scope in scopes for word in ("--scope", scope)]
        operator = ["--token-file", str(self.token_file)]
        return self.seqd(*endpoint, *operator, "access", "create", *words)

    def client(self, **options):
        """Without the retries of redis-py, which repeat a refused password for six seconds."""
        return redis.Redis(
            host="localhost",
            port=self.redis_port,
            ssl=True,
            ssl_ca_certs=str(self.ca),
            retry=Retry(NoBackoff(), 0),
            **options,
        )

    def redis_cli(self, *words):
        command = ["redis-cli", "-h", "localhost", "-p", str(self.redis_port)]
        command += ["--tls", "--cacert", str(self.ca), "--no-auth-warning", *words]
        result = subprocess.run(command, capture_output=True, text=True, timeout=20)
        return (result.stdout + result.stderr).strip()


def answers(client):
    try:
        return client.ping()
    except RedisError:
        return False


def exercise(node):
    operator = node.client(password=OPERATOR)
    if not check("the node serves TLS", until(lambda: answers(operator), 20)):
        print((node.folder / "log").read_text()[-1500:])
        return
    equal("the operator's token as the password", operator.incr("order"), 1)
    equal("with a user name", node.client(username="any", password=OPERATOR).incr("order"), 2)
    for protocol in (3, 2):
        nobody = node.client(protocol=protocol)
        raises(f"no token, RESP{protocol}", RedisError, lambda client=nobody: client.incr("order"))
        wrong = node.client(protocol=protocol, password="wrong-" + "0" * 40)
        raises(f"a wrong token, RESP{protocol}", AuthenticationError, wrong.ping)

    reader = node.client(password=node.token("read"))
    equal("a token that reads", reader.get("order"), b"2")
    raises("it does not allocate", NoPermissionError, lambda: reader.incr("order"))
    shop = node.client(password=node.token("allocate:shop."))
    equal("a token with a prefix", shop.incr("shop.order"), 1)
    raises("another name", NoPermissionError, lambda: shop.incr("order"))

    first, second = (node.client(password=node.token("allocate:lock.")) for _ in range(2))
    lock = first.lock("lock.one", timeout=10)
    equal("acquire", lock.acquire(), True)
    seen = second.get("lock.one")
    check("another token does not see the value", seen != lock.local.token, seen)
    thief = second.lock("lock.one", timeout=10)
    thief.local.token = lock.local.token
    raises("release with the value, but another token", LockError, thief.release)
    raises("del by another token", ResponseError, lambda: second.delete("lock.one"))
    equal("the lock is held", lock.owned(), True)
    lock.release()
    equal("released", first.exists("lock.one"), 0)

    equal("redis-cli --tls -a", node.redis_cli("-a", OPERATOR, "INCR", "order"), "3")
    error = node.redis_cli("INCR", "order")
    check("redis-cli without a token", error.startswith("NOAUTH"), error)


def main():
    with tempfile.TemporaryDirectory(prefix="seqd-access.") as folder:
        node = Secured(sys.argv[1], folder)
        try:
            exercise(node)
        finally:
            node.process.kill()
            node.process.wait()
    done()


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith("SEQD_")]:
        del os.environ[name]
    main()
