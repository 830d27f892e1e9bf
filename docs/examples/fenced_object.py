"""Changes an object of a store like S3 that a lock protects, of the standard library alone.

    fenced_object.py URL TOKEN COMMAND [ARGUMENT...]

COMMAND is given the object's content and prints the next one; it runs again where another wrote in
between. Exit code 6: a later holder has written the object, which is as it left it. 8: the store did
not answer, or failed (5xx): it may have been written. 1: anything else, and nothing is written.

The token is the object's first line, not its metadata: S3 makes the ETag of the content alone, so a
later holder that writes the same content leaves the same ETag, and an earlier one would get in.
"""

import http.client
import subprocess
import sys
import urllib.error
import urllib.request

TRIES = 100  # each is lost to a write that another has made: progress, though not here


class Lost(Exception):
    """A later holder of the lock has written the object."""


class Outpaced(Exception):
    """Another wrote between each reading and writing."""


def send(method, url, body=None, headers=None):
    """One request. A real store wants it signed: boto3 takes the conditions as IfMatch, IfNoneMatch."""
    request = urllib.request.Request(url, body, headers or {}, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.headers["ETag"], answer.read()


def read(url):
    """The token and the content of the object, and the condition that it is still the same."""
    try:
        etag, body = send("GET", url)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return 0, b"", {"If-None-Match": "*"}
    first, content = body.split(b"\n", 1)
    if etag is None or not first.startswith(b"fence "):
        raise ValueError("no ETag, or written without a token")
    return int(first.removeprefix(b"fence ")), content, {"If-Match": etag}


def write(url, token, change):
    """Replaces the content by what `change` makes of it; Lost, where a larger token is there."""
    for _ in range(TRIES):
        latest, content, unchanged = read(url)
        if latest > token:
            raise Lost(f"the lock was granted again: token {token} is older than {latest}")
        body = b"fence %d\n" % token + change(content)
        try:
            return send("PUT", url, body, unchanged)
        except urllib.error.HTTPError as error:
            # 412: it was written since; 409: it is being written; 404: it was deleted.
            if error.code not in (404, 409, 412):
                raise
    raise Outpaced(f"{TRIES} times another wrote in between")


def main():
    url, token, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]

    def change(content):
        return subprocess.run(command, input=content, stdout=subprocess.PIPE, check=True).stdout

    try:
        write(url, token, change)
    except Lost as lost:
        print(lost, file=sys.stderr)
        sys.exit(6)
    except Outpaced as outpaced:
        sys.exit(str(outpaced))  # with exit code 1
    except urllib.error.HTTPError as error:
        print(error, file=sys.stderr)
        sys.exit(8 if error.code >= 500 else 1)
    except (OSError, http.client.HTTPException) as error:
        # A write whose answer was lost may have been done: read before another.
        print(error, file=sys.stderr)
        sys.exit(8)


if __name__ == "__main__":
    main()
