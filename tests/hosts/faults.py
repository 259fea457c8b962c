"""What can be done to the network of a bed's host. Each holds until heal(), and replaces what the same call did before."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from bed import Host, HostProcess

HERE = Path(__file__).resolve().parent

_LIMIT_S = 90.0  # of what changes a network

# What ssh carries is not touched where a test looks into its hosts by it. (nft makes one comparison of two that are next
# to each other: "tcp dport != 22 tcp sport != 22" is true where only one of both is not 22.)
_LET_SSH_PASS = "tcp dport 22 accept\ntcp sport 22 accept\n"


class Faults:
    """Of one host: ``host.faults``. Needs root or a user namespace, tc and nft."""

    def __init__(self, host: "Host") -> None:
        self._host = host
        self._wire: Optional["HostProcess"] = None

    # ---- Speed

    def rate(self, rate: str, burst: str = "256k") -> None:
        """As fast as that in both directions: "1gbit", "100mbit", "1mbit". From 10 Gbit/s on give a burst of "4m"."""
        shape = f"root tbf rate {rate} burst {burst} latency 20ms"
        self._host.check("tc", "qdisc", "replace", "dev", "eth0", *shape.split())
        self._host.in_switch("tc", "qdisc", "replace", "dev", self._host.port, *shape.split())

    def mtu(self, bytes_: int) -> None:
        """Of the host's interface alone, not of the switch's port."""
        self._host.check("ip", "link", "set", "eth0", "mtu", str(bytes_))

    def packets_as_on_the_wire(self) -> None:
        """No packets of 64 KiB: one that is lost is then as large as on a real wire. Not undone by heal()."""
        self._host.check("ethtool", "-K", "eth0", "tso", "off", "gso", "off", "gro", "off")

    def wire(self, delay_ms: float = 0, jitter_ms: float = 0, reordered: float = 0, twice: float = 0) -> None:
        """All that passes the cable comes later, in both directions: by the delay and up to the jitter. So many percent come
        after what was sent behind them, and so many twice (wire.py). At most some hundred Mbit/s."""
        self._unplug_wire()
        ends = f"{self._host.port}w", f"{self._host.port}x"
        self._host.in_switch("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        whole = "tso off gso off gro off tx off".split()  # what the wire reads is no larger than it takes, and has checksums
        self._host.check("ethtool", "-K", "eth0", *whole)
        self._host.in_switch("ethtool", "-K", ends[1], *whole)
        self._host.in_switch("ip", "link", "set", ends[1], "master", "br0", "up")
        self._host.in_switch("ip", "link", "set", ends[0], "up")
        self._host.in_switch("ip", "link", "set", self._host.port, "nomaster", "promisc", "on")
        self._wire = self._host.start_in_switch(
            sys.executable, HERE / "wire.py", self._host.port, ends[0], delay_ms, jitter_ms, reordered, twice
        )
        assert self._wire.stdout is not None
        said = self._wire.stdout.readline()
        assert said == "ready\n", f"the wire cannot be started: {said}"

    def _unplug_wire(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.kill()
            wire.wait(_LIMIT_S)
            self._host.in_switch("ip", "link", "del", f"{self._host.port}w")
            self._host.in_switch("ip", "link", "set", self._host.port, "master", "br0", "promisc", "off")

    # ---- Packets. `of`: only what comes from that host.

    def loss(self, percent: float, of: Optional["Host"] = None) -> None:
        """So much of what comes in is lost."""
        self._rule("loss", of, f"numgen random mod 10000 < {round(percent * 100)} drop")

    def deaf(self, of: Optional["Host"] = None) -> None:
        """Nothing comes in any more, while all goes out."""
        self._rule("deaf", of, "drop")

    def reset(self, of: Optional["Host"] = None) -> None:
        """TCP packets that come in are answered by a reset: the sender's connection breaks, this side's is silent."""
        self._rule("reset", of, "meta l4proto tcp reject with tcp reset", lets_ssh_pass=True)

    def corrupt(self, every: int = 1, at: int = 0, of: Optional["Host"] = None) -> None:
        """Of every so many packets with data one gets another byte at that place of its data, which TCP takes: veth does not
        verify checksums. Packets with less data are left alone."""
        chosen = f"tcp flags & psh == psh meta length > {at + 52}"
        if every > 1:
            chosen += f" numgen inc mod {every} == 0"
        self._rule("corrupt", of, f"{chosen} @th,{256 + 8 * at},8 set 0x41", lets_ssh_pass=True)

    def heal(self) -> None:
        """Undoes all of the above, and a link that is down."""
        for name in ("loss", "deaf", "reset", "corrupt"):
            self._nft(f"table inet bed_{name}\ndelete table inet bed_{name}\n")
        self._unplug_wire()
        # There may be none to remove.
        self._host.run("tc", "qdisc", "del", "dev", "eth0", "root")
        self._host.run_in_switch("tc", "qdisc", "del", "dev", self._host.port, "root")
        self.link_up()

    def _rule(self, name: str, of: Optional["Host"], rule: str, lets_ssh_pass: bool = False) -> None:
        table = f"inet bed_{name}"
        sources = [""] if of is None else [f"ip saddr {of.address} ", f"ip6 saddr {of.address6} "]
        rules = (_LET_SSH_PASS if lets_ssh_pass else "") + "\n".join(source + rule for source in sources)
        self._nft(
            f"table {table}\ndelete table {table}\n"
            f"table {table} {{\nchain in {{\ntype filter hook input priority 0;\n{rules}\n}}\n}}\n"
        )

    def _nft(self, script: str) -> None:
        self._host.check("nft", "-f", "-", input=script)

    # ---- The cable

    def link_down(self) -> None:
        """The host is gone for the others, without a word; it sees its cable pulled."""
        self._host.in_switch("ip", "link", "set", self._host.port, "down")

    def link_up(self) -> None:
        self._host.in_switch("ip", "link", "set", self._host.port, "up")

    def cut_power(self) -> None:
        """The host is gone for ever: its link first, so that its kernel tells nobody."""
        self.link_down()
        self._host.kill()
