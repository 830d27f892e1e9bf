"""Mints IDs until it is killed: a line of JSON each. Refusals are passed over."""

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "src"))

import seqd

# The layout `default`.
EPOCH_MS = 1_767_225_600_000

generator = seqd.IdGenerator(seqd.Client(), sys.argv[1])
while True:
    try:
        id = generator.id()
    except seqd.Error:
        continue
    print(json.dumps({"id": id, "ms": (id >> 22) + EPOCH_MS}), flush=True)
    time.sleep(0.001)
