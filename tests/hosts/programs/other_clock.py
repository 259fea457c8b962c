"""A timeline of all-reduces on a host with a monotonic clock of its own: other_clock.py BOOT SECONDS. The rank of which the
variable APART is 1 has a clock that is so many seconds ahead of the machine's, as the host that has booted as BOOT."""

import os
import sys
import tempfile

if os.environ.pop("APART", "") == "1":
    boot, seconds = sys.argv[1:]
    file = tempfile.NamedTemporaryFile("w", delete=False)
    file.write(boot)
    file.close()
    own = f"mount --bind {file.name} /proc/sys/kernel/random/boot_id && exec \"$@\""
    apart = ["unshare", "--time", "--monotonic", seconds, "--mount", "--fork", "--kill-child", "--", "sh", "-c", own, "sh"]
    os.execvp("unshare", [*apart, sys.executable, *sys.argv])

import numpy as np

import ronde.numpy as rnp

path = os.path.join(tempfile.mkdtemp(), "trace.json")
rnp.init()
rnp.start_timeline(path)
for _ in range(20):
    rnp.allreduce_(np.ones(4), rnp.Sum, name="x")
rnp.shutdown()
rank = os.environ["RONDE_RANK"]
with open(path if rank == "0" else f"{path}.{rank}") as written:
    print(written.read(), flush=True)
