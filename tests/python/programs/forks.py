"""What a forked child may do: nothing with Ronde, and end in order."""

import os
import sys

import torch

import ronde.torch as hvd
from ronde import _operation


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    kept = hvd.allreduce_async_(torch.ones(1000), name="under way")
    gathered = hvd.allgather(torch.ones(100_000), name="gathered")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            assert not hvd.is_initialized() and _operation.in_forked_child()
            for call in (
                hvd.rank,
                lambda: hvd.allreduce(torch.ones(1), name="child"),
                lambda: hvd.poll(kept),
                lambda: hvd.synchronize(kept),
                hvd.init,
                hvd.shutdown,
            ):
                try:
                    call()
                    print("no error in the child")
                    os._exit(4)
                except hvd.RondeError as error:
                    assert "forked child" in str(error), error
            assert gathered.sum() == 100_000 * hvd_size
            del kept, gathered
        except BaseException as error:
            print(f"child: {error!r}", flush=True)
            os._exit(5)
        sys.exit(6)  # with exit handlers and destructors
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 6, status
    assert hvd.synchronize(kept)[0] == 1
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum) == hvd.size()
    print("parent goes on", flush=True)


hvd_size = int(os.environ["RONDE_SIZE"])
main()
