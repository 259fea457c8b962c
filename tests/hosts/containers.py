"""Containers for ranks: namespaces of their own by bubblewrap, and stand-ins for container engines.

    host.run(RONDE, "run", "-n", 2, "--", *bubble(bed), PYTHON, program)     # each rank in a container
    host.run("apptainer", "exec", "ronde.sif", "python", program, env=Engines(bed).environment)

A container sees the files of its host, for reading, in place of an image's.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import struct
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from bed import ROOT, Argument, Bed
from engine_stand_ins import CONTROL_GROUP

VENV = Path(sys.executable).parent
#: By machine: the audit architecture of seccomp and the number of memfd_create.
_MEMFD_CREATE = {"x86_64": (0xC000003E, 319), "aarch64": (0xC00000B7, 279)}


def bubble(bed: Bed, *, name: str = "", shm_bytes: int = 65536, network: bool = True, folders: Sequence[Argument] = (),
           user: bool = False, seccomp: Optional[Path] = None) -> List[str]:
    """Begins a command that runs in a container with process, mount, host-name and System V namespaces, a /tmp and a
    /dev/shm of its own. `name`: its host name, else that of its host. `network`: that of its host, else none but a
    loopback interface. `folders`: of the host's, which it sees too and may write. `user`: in a user namespace as well.
    `seccomp`: a file of forbid_shared_memory(). The command's descriptors stay open in it."""
    words = ["bwrap", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    words += ["--size", str(shm_bytes), "--perms", "1777", "--tmpfs", "/dev/shm", "--perms", "1777", "--tmpfs", "/tmp"]
    for folder in (*bed.kept, *folders):
        words += ["--bind", str(folder), str(folder)]
    words += ["--unshare-pid", "--unshare-ipc", "--unshare-uts"]
    words += ["--hostname", name] if name else []
    words += [] if network else ["--unshare-net"]
    words += ["--unshare-user"] if user else []
    if seccomp:
        return ["sh", "-c", 'exec 9< "$0" && exec "$@"', str(seccomp), *words, "--seccomp", "9"]
    return words


def forbid_shared_memory(file: Path) -> Path:
    """Writes a program of seccomp's that refuses memfd_create, as a strict profile does; for bubble()."""
    architecture, number = _MEMFD_CREATE[platform.machine()]
    load, equal, answer = 0x20, 0x15, 0x06  # BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ | BPF_K, BPF_RET | BPF_K
    refuse, allow = 0x00050001, 0x7FFF0000  # SECCOMP_RET_ERRNO with EPERM, SECCOMP_RET_ALLOW
    program = [(load, 0, 0, 4), (equal, 0, 3, architecture), (load, 0, 0, 0), (equal, 0, 1, number), (answer, 0, 0, refuse),
               (answer, 0, 0, allow)]
    file.write_bytes(b"".join(struct.pack("=HBBI", *each) for each in program))
    return file


class Engines:
    """Programs of the names apptainer, podman and docker in a folder of the bed. The image `ronde` or `ronde.sif` has the
    programs of this machine and of this virtual environment.

    podman is podman's own, by runc and with a root folder in place of an image. The other two cannot be had here:
    docker is podman under that name; apptainer is bubblewrap with the defaults of Apptainer: namespaces of mounts
    alone, and the host's /tmp, /dev, home folder and working folder."""

    def __init__(self, bed: Bed) -> None:
        self.folder = bed.folder / "engines"
        self.folder.mkdir()
        folders = sorted({str(ROOT), sys.prefix, sys.base_prefix, *bed.kept})
        for name in ("apptainer", "podman", "docker"):
            program = self.folder / name
            program.write_text(f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(ROOT / 'tests/hosts')!r})\n"
                               f"import engine_stand_ins\nengine_stand_ins.{'apptainer' if name == 'apptainer' else 'podman'}"
                               f"(sys.argv[1:], {folders!r})\n")
            program.chmod(0o755)
        self.environment: Dict[str, str] = {"PATH": f"{self.folder}:{VENV}:{os.environ['PATH']}:/usr/sbin:/sbin",
                                            "PODMAN": shutil.which("podman") or "", "BED_CONTROL_GROUP": CONTROL_GROUP}


def installed_wheel(name: str, folder: Path) -> None:
    """Writes the wheel of a package of this virtual environment, as it is installed."""
    package = metadata.distribution(name)
    tag = re.findall(r"^Tag: (\S+)$", package.read_text("WHEEL") or "", re.MULTILINE)[-1]
    stem = f"{name}-{package.version}"
    recorded = []
    with zipfile.ZipFile(folder / f"{stem}-{tag}.whl", "w") as wheel:
        for file in package.files or []:
            path = f"{stem}.data/scripts/{file.name}" if file.parts[0] == ".." else str(file)
            if file.name != "RECORD" and "__pycache__" not in file.parts:
                wheel.write(str(file.locate()), path)
                recorded.append(f"{path},,\n")
        wheel.writestr(f"{stem}.dist-info/RECORD", "".join(recorded))


def remove_control_groups() -> None:
    """Those that podman has left of this process's containers, or of those of a process that is no more."""
    root = Path("/sys/fs/cgroup")  # one tree, or one for each controller
    for top in (*root.glob("ronde-bed-*"), *root.glob("*/ronde-bed-*")):
        pid = top.name.rpartition("-")[2]
        if pid == str(os.getpid()) or not os.path.exists(f"/proc/{pid}"):
            for folder, _, _ in os.walk(top, topdown=False):
                os.rmdir(folder)


def plain(**more: str) -> Dict[str, str]:
    """What ranks need of this machine besides, for Host.run()'s `env`."""
    return {"RONDE_PROBE": "0", "RONDE_INIT_TIMEOUT_S": "30", "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}
