"""Client of seqd: IDs, sequence values, locks and idempotency keys of a cluster.

    client = seqd.Client("n1.example,n2.example,n3.example")
    client.id()
"""

from .client import Client
from .errors import Error, LockLost
from .generator import GeneratorStatus, IdGenerator
from .layout import Layout, decode, encode
from .lock import Lock
from .once import Turn
from .ranges import Ranges

__version__ = "0.1.0"
__all__ = [
    "Client", "Error", "GeneratorStatus", "IdGenerator", "Layout", "Lock", "LockLost", "Ranges",
    "Turn", "decode", "encode",
]
