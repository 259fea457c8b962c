"""Where the ranks meet if no ``ronde run`` has arranged it: under ``torchrun``, or processes of ``mp.spawn``.

Rank 0 opens a store of ours on a socket in a fresh folder that only its user can enter, puts the job's key into the
folder, and says through PyTorch's store where it is. PyTorch's store hears everyone who reaches its port, so what comes
from it is taken for a hint: a rank reads the key only from a folder that is this user's own and closed to others, and
goes on only if the hint was made with that key for this job. The key itself never leaves the folder.
"""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import hmac
import os
import re
import secrets
import stat
from typing import NamedTuple, Optional
from urllib.parse import quote, unquote_to_bytes

import torch.distributed as dist

from ronde import _process
from ronde._lib import check, library
from ronde.exceptions import InitializationError

#: In PyTorch's store, with the number of the job in this process: a store of torchrun's outlives the jobs.
_HINT = "ronde/meeting"
_MOST_HINT_BYTES = 1024
#: Any bytes a path may have; the address of a socket has room for a hundred.
_FOLDER = re.compile(rb"/[^\0]{0,200}/ronde-[A-Za-z0-9]{6}", re.DOTALL)
_HEX = re.compile(r"[0-9a-f]{64}")
_AUTH_FAILED = 13
#: The rank, the size and how many are on this host.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"),
)


class Place(NamedTuple):
    """Of a store, for ``ronde_options``."""

    address: str
    key: str


class _Store:
    """A store that this process serves."""

    def __init__(self) -> None:
        handle, address, key = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_char_p()
        check(library().ronde_store_open(ctypes.byref(handle), ctypes.byref(address), ctypes.byref(key)))
        self._handle = handle
        self._owner = os.getpid()
        self.place = Place(os.fsdecode(address.value or b""), (key.value or b"").decode())
        atexit.register(self.close)

    def close(self) -> None:
        """Again, or in a forked child: does nothing."""
        if self._handle.value is not None and os.getpid() == self._owner:
            library().ronde_store_close(self._handle)
            self._handle.value = None
            atexit.unregister(self.close)


_jobs = 0
_place: Optional[Place] = None
_served: Optional[_Store] = None


def has_launcher() -> bool:
    """Whether a launcher of ours has started this process."""
    return "RONDE_SIZE" in os.environ


def is_on_several_hosts(rank: int, size: int) -> bool:
    """Whether another launcher says that this is this rank of a job of several hosts: then the engine meets by what that
    one authenticates, or by the user's key."""
    told = os.environ.get
    for whose, of_all, of_host in _LAUNCHERS:
        if (told(whose), told(of_all)) == (str(rank), str(size)) and told(of_host, str(size)) != str(size):
            return True
    is_task = "SLURM_STEP_ID" in os.environ and (told("SLURM_PROCID"), told("SLURM_STEP_NUM_TASKS")) == (str(rank), str(size))
    return is_task and told("SLURM_STEP_NUM_NODES", "1") != "1"


def place() -> Optional[Place]:
    """Where ranks of the job meet; None: where the engine has met. Requires: the default group is there, with more than
    one rank."""
    if _place is not None or "RONDE_STORE" not in os.environ:
        return _place
    return Place(os.environ["RONDE_STORE"], os.environ.get("RONDE_KEY", ""))


def open_or_find(store: dist.Store, rank: int, size: int) -> Place:
    """Rank 0 opens the job's store, the others find it; ``store``: PyTorch's. Blocks up to that one's limit.

    Raises InitializationError (a ValueError) if what was found cannot be trusted.
    """
    global _jobs, _place, _served
    close()
    _jobs += 1
    hint = f"{_HINT}/{_jobs}"
    if rank == 0:
        _served = _Store()
        _place = _served.place
        store.set(hint, _publish(_place, size))
    else:
        _place = _find(bytes(_process.interruptibly("ronde-meeting", lambda: store.get(hint))), size)
    return _place


def close() -> None:
    """The job has ended: its store too, if this process serves it."""
    global _place, _served
    served, _served, _place = _served, None, None
    if served is not None:
        served.close()


def _folder_of(found: Place) -> str:
    return os.path.dirname(found.address[len("unix:") :])


def _proof(key: str, folder: str, nonce: str, size: int) -> str:
    """Shows that the hint was made by who has the key, for a job of this size that meets at this address."""
    meant = "\0".join(
        ["ronde.torch.distributed", folder, nonce, str(size), os.environ.get("MASTER_ADDR", ""),
         os.environ.get("MASTER_PORT", ""), os.environ.get("TORCHELASTIC_RUN_ID", "")]
    )
    return hashlib.blake2b(os.fsencode(meant), key=bytes.fromhex(key), digest_size=32).hexdigest()


def _publish(made: Place, size: int) -> str:
    folder = _folder_of(made)
    descriptor = os.open(os.path.join(folder, "key"), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(made.key)
    nonce = secrets.token_hex(32)
    return "\n".join([quote(os.fsencode(folder)), nonce, _proof(made.key, folder, nonce, size)])


def _find(hint: bytes, size: int) -> Place:
    if len(hint) > _MOST_HINT_BYTES:
        raise _refused(f"it has {len(hint)} bytes")
    try:
        quoted, nonce, proof = hint.decode("ascii").split("\n")
    except ValueError:
        raise _refused("it is not one of Ronde's") from None
    path = unquote_to_bytes(quoted)
    if not _FOLDER.fullmatch(path) or b"/../" in path or not _HEX.fullmatch(nonce) or not _HEX.fullmatch(proof):
        raise _refused("it is not one of Ronde's")
    folder = os.fsdecode(path)
    key = _read_key(folder)
    if not hmac.compare_digest(_proof(key, folder, nonce, size), proof):
        raise _refused(f"it was not made with the key in {folder} for this job")
    return Place(f"unix:{folder}/store", key)


def _read_key(folder: str) -> str:
    """Through descriptors, so that what was looked at is what is read."""
    try:
        inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise InitializationError(
            f"rank 0 has opened the meeting of the job in {folder}, which this process cannot enter "
            f"({error.strerror}): without a launcher that says more all ranks must run on one host, as one user. On "
            "several hosts start them with ronde run -H, torchrun (LOCAL_WORLD_SIZE says how many of them are here), "
            "srun or mpirun",
            _AUTH_FAILED,
            0,
        ) from error
    try:
        _require_private(os.fstat(inside), folder)
        try:
            descriptor = os.open("key", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inside)
        except OSError as error:
            raise _refused(f"there is no key in {folder} ({error.strerror})") from error
    finally:
        os.close(inside)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        _require_private(about, f"{folder}/key")
        text = file.read(65).decode("ascii", "replace") if stat.S_ISREG(about.st_mode) else ""
    if not _HEX.fullmatch(text):
        raise _refused(f"there is no key in {folder}")
    return text


def is_private(about: os.stat_result) -> bool:
    """Whether a file or folder is this user's own and closed to others."""
    return about.st_uid == os.geteuid() and not about.st_mode & 0o077


def _require_private(about: os.stat_result, what: str) -> None:
    if not is_private(about):
        raise _refused(f"{what} belongs to another user or is open to others")


def _refused(why: str) -> InitializationError:
    return InitializationError(
        "PyTorch's store names a place for the ranks to meet that cannot be trusted: "
        f"{why}. Somebody else may have written to it; start the job again on another MASTER_PORT",
        _AUTH_FAILED,
    )
