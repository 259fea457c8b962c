"""Keys, and digests that prove them. Ronde's own jobs have keys of their own, which these are not."""

from __future__ import annotations

import hashlib
import hmac
import secrets

#: The environment variable that held a job's key.
HOROVOD_SECRET_KEY = "_HOROVOD_SECRET_KEY"

#: Of a key and of a digest, in bytes.
SECRET_LENGTH = DIGEST_LENGTH = 32


def make_secret_key() -> bytes:
    """A new random key."""
    return secrets.token_bytes(SECRET_LENGTH)


def compute_digest(key: bytes, message: bytes) -> bytes:
    """The HMAC-SHA256 of a message."""
    return hmac.new(key, message, hashlib.sha256).digest()


def check_digest(key: bytes, message: bytes, digest: bytes) -> bool:
    """Whether the digest is that of the message; takes equally long for a right and a wrong one."""
    return hmac.compare_digest(compute_digest(key, message), digest)
