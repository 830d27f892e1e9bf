"""The URLs of Leaf, TinyID, CosId and katsubushi, with curl, against `http_vectors.tsv`.

A vector is a request with the status, the content type and the body (regular expressions) of the
original server.
"""

import csv
import json
import pathlib
import re
import subprocess
import urllib.request

from checks import HTTP, RUN, check, done, equal

TABLE = pathlib.Path(__file__).resolve().parent.parent / "http_vectors.tsv"


def curl(method, path, headers=(), body=None):
    """Returns the status, the headers and the body."""
    command = ["curl", "-sS", "-i", "--max-time", "10", "-X", method, HTTP + path]
    for header in headers:
        command += ["-H", header]
    if body is not None:
        command += ["--data", body]
    output = subprocess.run(command, capture_output=True, text=True).stdout
    head, _, body = output.replace("\r\n", "\n").partition("\n\n")
    lines = head.split("\n")
    pairs = [line.split(": ", 1) for line in lines[1:] if ": " in line]
    fields = {name.lower(): value for name, value in pairs}
    if len(fields) < len(pairs):
        check(f"{method} {path} has each header once", False, head)
    return int((lines[0].split() + ["0", "0"])[1]), fields, body


def create(name, **definition):
    request = urllib.request.Request(
        f"{HTTP}/v1/sequences/{name}",
        json.dumps(definition).encode(),
        {"content-type": "application/json"},
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=10).read()


def vectors():
    with open(TABLE, newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            row = {key: (value or "").replace("{RUN}", RUN) for key, value in row.items()}
            headers = [] if row["headers"] == "-" else [row["headers"]]
            body = row["body"]
            if body == "-":
                body = "" if row["method"] == "POST" and headers else None
            status, fields, text = curl(row["method"], row["path"], headers, body)
            kind = fields.get("content-type", "")
            passed = (
                status == int(row["status"])
                and (row["content-type"] == "-" or re.fullmatch(row["content-type"], kind))
                and re.fullmatch(row["response"], text)
            )
            check(row["name"], bool(passed), f"{status} {kind} {text!r}")
            check(
                row["name"] + ": not stored",
                fields.get("cache-control") == "no-store",
                fields.get("cache-control"),
            )


def tinyid_values(segment):
    """The values of a segment as TinyID's client takes them."""
    current, _, maximum, delta, remainder = map(int, segment.split(","))
    return [value for value in range(current + 1, maximum + 1) if value % delta == remainder]


def tinyid_segments():
    path = f"?bizType={RUN}-odd&token=t"
    create(f"{RUN}-odd", mode="segment", start="1", increment="2")
    segments = [curl("POST", "/tinyid/id/nextSegmentIdSimple" + path)[2] for _ in range(3)]
    singles = [int(curl("GET", "/tinyid/id/nextIdSimple" + path)[2] or 0) for _ in range(20)]
    values = [value for segment in segments for value in tinyid_values(segment)] + singles
    check(
        "tinyid: three segments and 20 IDs have no value twice",
        len(set(values)) == len(values),
        segments,
    )
    equal("tinyid: delta 2 and remainder 1 give odd values", {value % 2 for value in values}, {1})


def katsubushi_ids():
    ids = [int(line) for line in curl("GET", "/ids?n=1000")[2].split("\n")]
    check("katsubushi: 1000 rising IDs", len(set(ids)) == 1000 and ids == sorted(ids), ids[:2])


create(f"{RUN}-leaf", mode="strict")
create(f"{RUN}-tiny", mode="strict")
vectors()
tinyid_segments()
katsubushi_ids()
done()
