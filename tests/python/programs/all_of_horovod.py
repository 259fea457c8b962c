"""Uses every public name of ``horovod``, ``horovod.torch`` and ``horovod.run`` and checks each result against NumPy.

    horovodrun -np 2 python all_of_horovod.py FOLDER

Any number of ranks will do. In FOLDER each rank leaves a file ``used.RANK`` with the names that it has used.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Dict

import torch
from all_of_horovod_common import check_data, check_util, check_versions
from all_of_horovod_elastic import check_elastic
from all_of_horovod_launching import check_flags, check_launching
from all_of_horovod_names import Watched, used
from all_of_horovod_process import (
    check_errors,
    check_hooks,
    check_life,
    check_process_sets,
    check_sets_of_init,
    check_timeline,
    check_waiting,
    check_who,
    check_without_a_job,
    some_ranks,
)
from all_of_horovod_reductions import check_reductions
from all_of_horovod_rows import check_rows
from all_of_horovod_training import check_training

horovod = Watched("horovod")
hvd = Watched("horovod.torch")
mpi_ops = Watched("horovod.torch.mpi_ops")
basics_module = Watched("horovod.common.basics")
basics = Watched("horovod.common.basics:HorovodBasics", basics_module.HorovodBasics(__file__, "mpi_lib_v2"))
process_sets = Watched("horovod.common.process_sets")
util = Watched("horovod.common.util")

LAUNCHING = ["horovod.run", "horovod.run.runner", "horovod.runner", "horovod.runner.launch"]
MODULES: Dict[str, Any] = {
    "optimizer": Watched("horovod.torch.optimizer"),
    "compression": Watched("horovod.torch.compression"),
    "functions": Watched("horovod.torch.functions"),
    "elastic": Watched("horovod.torch.elastic"),
    "state": Watched("horovod.torch.elastic.state"),
    "sampler": Watched("horovod.torch.elastic.sampler"),
    "plain elastic": Watched("horovod.common.elastic"),
    "exceptions": Watched("horovod.common.exceptions"),
}


def check_collectives(rank: int, size: int) -> None:
    """On all ranks, and on some under the names of the module: each rank is in one of two process sets."""
    check_reductions(hvd, hvd, hvd.global_process_set, rank)
    check_rows(hvd, hvd, hvd.global_process_set, rank)
    some = some_ranks(size)
    others = [each for each in range(size) if each not in some]
    sets = [hvd.add_process_set(ranks) for ranks in (some, others)] if size > 1 else [hvd.global_process_set]
    own = next(each for each in sets if each.included())
    check_reductions(hvd, mpi_ops, own, rank)
    check_rows(hvd, mpi_ops, own, rank)
    check_training(hvd, MODULES, sets[0], rank, size)
    for ops in (hvd, mpi_ops):
        check_waiting(ops, rank, size, own)
    for each in sets:
        assert hvd.remove_process_set(each) == (size > 1)


def check_job(folder: Path) -> None:
    """All that needs a job, which has begun and goes on. ``folder``: for files, of this job only."""
    rank, size = hvd.rank(), hvd.size()
    for owner in (hvd, mpi_ops, basics):
        check_who(owner)
    for number, owner in enumerate((hvd, mpi_ops, basics)):
        check_timeline(owner, hvd, folder / f"started.{number}.json", rank)
    for owner in (hvd, process_sets):
        check_process_sets(owner, rank, size)
    check_hooks(basics, process_sets, rank, size)
    check_collectives(rank, size)
    check_errors(hvd, MODULES["exceptions"], rank, size)
    check_elastic(hvd, MODULES, rank, size)
    check_util(util, hvd)
    check_versions(horovod, Watched("horovod.metadata"), util)
    for data in ("horovod.data", "horovod.data.data_loader_base"):
        check_data(Watched(data))
    assert hvd._check_has_gpu() == torch.cuda.is_available()
    for owner in (hvd, mpi_ops, basics):
        check_life(owner)
    check_sets_of_init(hvd)


def main() -> None:
    """A job by itself."""
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for owner in (hvd, mpi_ops, basics):
        check_without_a_job(owner, folder)
    hvd.init()
    rank = hvd.rank()
    if "flags" in sys.argv:
        check_flags(folder)
        hvd.stop_timeline()  # that of the flag
        assert json.loads((folder / f"flag.json{'' if rank == 0 else f'.{rank}'}").read_bytes())
    check_job(folder)
    hvd.barrier()
    hvd.shutdown()
    if rank == 0:
        check_launching({"horovod": horovod, **{name: Watched(name) for name in LAUNCHING}})
    (folder / f"used.{rank}").write_text(json.dumps(sorted(used)), encoding="utf-8")


if __name__ == "__main__":
    main()
