"""The interpreter ends while daemon threads are in the library, of which one waits for what never comes."""

import threading

import numpy as np

import ronde.numpy as rnp
from ronde import _native


def main() -> None:
    rnp.init()
    for _ in range(3):
        rnp.allreduce_(np.ones(2), name="both")
    if rnp.rank() == 0:
        def wait() -> None:
            try:
                rnp.allreduce_(np.ones(2), name="alone")
            except BaseException:  # the job ends first, and it is told
                pass

        begun = [threading.Thread(target=wait, daemon=True)]
        handle = rnp.allreduce_async_(np.ones(2), name="asked for")

        def ask() -> None:
            try:
                while not rnp.poll(handle):
                    pass
            except BaseException:
                pass

        begun.append(threading.Thread(target=ask, daemon=True))
        for thread in begun:
            thread.start()
        threading.Event().wait(0.1)
    rnp.allreduce_(np.ones(2), name="begun")  # the other rank leaves no earlier
    print("extension", _native.extension is not None, flush=True)


main()
