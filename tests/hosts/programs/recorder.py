"""Passes one connection on and records what the caller has sent: recorder.py ADDRESS PORT TO_ADDRESS TO_PORT FILE."""

import socket
import sys
import threading

address, port, to_address, to_port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]


def pass_on(source, target, record):
    try:
        while got := source.recv(1 << 16):
            record.write(got)
            record.flush()
            target.sendall(got)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


with socket.create_server((address, port)) as listening:
    print("ready", flush=True)
    first = True
    while True:
        caller, _ = listening.accept()
        try:
            called = socket.create_connection((to_address, to_port), 5)
        except OSError:
            caller.close()  # nobody listens yet: the caller tries again
            continue
        mine = open(path if first else "/dev/null", "wb")
        first = False
        threading.Thread(target=pass_on, args=(caller, called, mine), daemon=True).start()
        threading.Thread(target=pass_on, args=(called, caller, open("/dev/null", "wb")), daemon=True).start()
