"""What a forked child may do with Ronde: ask who it is, and end in order."""

import os
import sys
from typing import Any, List

import torch

import ronde.torch as hvd
from ronde import _operation


def who_i_am() -> List[Any]:
    answers = [hvd.is_initialized(), hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank()]
    everyone = hvd.global_process_set
    return [*answers, hvd.cross_size(), hvd.is_homogeneous(), everyone.rank(), everyone.size(), everyone.included()]


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    kept = hvd.allreduce_async_(torch.ones(1000), name="under way")
    gathered = hvd.allgather(torch.ones(100_000), name="gathered")
    sys.stdout.flush()
    expected = who_i_am()
    child = os.fork()
    if child == 0:
        try:
            assert _operation.in_forked_child()
            assert who_i_am() == expected
            for call in (
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
