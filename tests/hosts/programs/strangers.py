"""Connections from somebody who has no key: strangers.py ADDRESS PORT COUNT SEED [FILE]. FILE: what a member has sent once.

Says "begun" once the port has answered, and at the end how many connections it has made."""

import random
import socket
import struct
import sys
import time

address, port, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
recorded = open(sys.argv[5], "rb").read() if len(sys.argv) > 5 else b""
chance = random.Random(seed)
KEPT = 200  # connections that say little, and stay


def greeting():
    return b"RONDE-T1" + chance.randbytes(32) + struct.pack("<i", 1)


def words():
    """What a stranger may say."""
    kinds = [
        lambda: chance.randbytes(chance.randrange(1, 4000)),
        lambda: greeting()[: chance.randrange(1, 44)],
        lambda: greeting() + chance.randbytes(32),
        lambda: struct.pack("<IQ", 0xFFFFFFFF, 0) + b"x" * 100,
        lambda: struct.pack("<Q", 2**63) * 20,
        lambda: b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        lambda: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + chance.randbytes(508),
        lambda: b"SSH-2.0-OpenSSH_9.2p1\r\n",
        lambda: b"",
        lambda: recorded,
        lambda: recorded[: chance.randrange(0, len(recorded) + 1)],
        lambda: chance.randbytes(300_000),
    ]
    return chance.choice(kinds)()


def main():
    kept, made = [], 0
    until = time.monotonic() + 60
    while made < count and time.monotonic() < until:
        try:
            connection = socket.create_connection((address, port), 1)
        except OSError:
            time.sleep(0.005)  # it does not listen yet, or has too many of these
            continue
        if made == 0:
            print("begun", flush=True)
        made += 1
        try:
            connection.settimeout(0.05)
            connection.sendall(words())
        except OSError:
            pass  # it was closed on us
        if chance.random() < 0.3:
            kept.append(connection)
        else:
            connection.close()
        if len(kept) > KEPT:
            kept.pop(chance.randrange(KEPT)).close()
    print(made, flush=True)


main()
