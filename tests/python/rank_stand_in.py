"""Stands in, under `ronde run`, for a rank that is forked from a zygote (fork_server.py): hands over its environment,
folder, standard input and output, waits, and ends as the rank did.

Called as rank_stand_in.py ZYGOTE TASK...: the zygote's address, and for a rank of a pool (rank_zygote.py) the pool's, for a
program (program_zygote.py) its path and arguments.

RONDE_TEST_HOSTS=aabbb puts ranks 0 and 1 on one host and the others on a second: each letter is a host, and memory is shared within
one only. Ranks beyond the last letter begin with the first again.
"""

import json
import os
import signal
import socket
import sys

zygote, *task = sys.argv[1:]
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(zygote)
    environment = dict(os.environ)
    hosts = environment.get("RONDE_TEST_HOSTS")
    if hosts:
        environment["RONDE_HOST_ID"] = hosts[int(environment["RONDE_RANK"]) % len(hosts)]
        environment["RONDE_TRANSPORT"] = "hosts"
    message = {"environment": environment, "folder": os.getcwd(), "task": task}
    data = json.dumps(message).encode() + b"\n"
    sent = socket.send_fds(connection, [data], [0, 1, 2])
    connection.sendall(data[sent:])
    code = int(connection.recv(16) or b"1")
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
