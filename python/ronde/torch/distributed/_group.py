"""The process group: each method of ``torch.distributed.ProcessGroup`` as one request of the engine.

Names of methods and arguments are PyTorch's, in short forms too. Ranks are those of the group. What is not in host memory, or not
contiguous, travels as a copy. Every method returns a :class:`Work` and blocks only where an earlier call must end first.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

import torch
import torch.distributed as dist

from ronde import _abi, _shared_buffer, _operation
from ronde._operation import Operation
from ronde.exceptions import InvalidArgumentError, RondeError, TimedOutError, UnsupportedError, raise_if_the_programs
from ronde.torch._staging import staged_together
from ronde.torch._tensors import apart, check, is_ready, kept, view_of
from ronde.torch.distributed import _monitored, _record, _short_forms, _sparse
from ronde.torch.distributed._at_once import at_once
from ronde.torch.distributed._behind import close_open
from ronde.torch.distributed._checks import elements_by_rank, require_like, require_pairs, require_parts, require_type
from ronde.torch.distributed._completer import Completer, shared_by_groups
from ronde.torch.distributed._memory import filled, flat, nothing, put
from ronde.torch.distributed._names import Names, counted
from ronde.torch.distributed._reductions import reduction_of
from ronde.torch.distributed._short_forms import also
from ronde.torch.distributed._work import AllOf, Ended, Work

Tensor = torch.Tensor

_log = logging.getLogger("ronde")

#: PyTorch's word for a call without a limit of its own is less.
_NO_TIME = timedelta(0)


class Within(NamedTuple):
    """What a process group is to the engine."""

    engine: Optional[int] = None  #: of ``ronde_engine_create``; None: the process's
    group: int = 0  #: which of the engine's groups; 0: all its ranks
    ranks: Optional[List[int]] = None  #: those of the engine, by their number in the group; None: they are the same


class _Batch(threading.local):
    """The calls that this thread makes as one."""

    works: Optional[List[Work]] = None


class RondeProcessGroup(dist.ProcessGroup):
    """A group of ranks within the job, or the job."""

    #: What it takes tensors of; ``torch.distributed.checkpoint.async_save`` asks.
    _device_types = [torch.device("cpu")]
    supports_splitting = False
    supports_coalescing = False
    supports_time_estimate = False

    def __init__(self, rank: int, size: int, name: str, close: Callable[[], None], within: Within = Within()) -> None:
        """``close`` ends it."""
        super().__init__(rank, size)  # type: ignore[call-arg] # torch's stubs know only the form with a store
        self._rank, self._size, self._name, self._description = rank, size, name, "undefined"
        self._within = within
        self._close: Optional[Callable[[], None]] = close
        self._over: Optional[str] = None  # why nothing can be called any more
        self._names = Names(within.engine, within.group, name)
        self._completer = Completer() if within.engine is not None else shared_by_groups()
        self._completer.begin_group()
        self._batch = _Batch()
        self._has_told_of_memory = False
        self._timeout_s = 0.0  # 0: as the engine's settings say

    # ---- Who it is: PyTorch keeps these for its own groups and asks those written in Python

    def rank(self) -> int:
        """This process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """How many ranks the group has."""
        return self._size

    getRank, getSize = rank, size

    def getBackendName(self) -> str:
        """"ronde"."""
        return "ronde"

    name = _get_backend_name = getBackendName

    def _set_group_name(self, name: str) -> None:
        self._name = self._names.title = name

    def getGroupName(self) -> str:
        """What PyTorch calls the group."""
        return self._name

    setGroupName = _set_group_name
    group_name = property(getGroupName)

    def _set_group_desc(self, desc: str) -> None:
        self._description = desc

    def getGroupDesc(self) -> str:
        """What the program says it is for."""
        return self._description

    setGroupDesc = _set_group_desc
    group_desc = property(getGroupDesc)

    def _get_backend(self, device: torch.device) -> "RondeProcessGroup":
        return self

    def set_timeout(self, timeout: timedelta) -> None:
        """How long the ranks may take for each call from now on. Not collective."""
        self._timeout_s = max(0.0, timeout.total_seconds())

    _set_default_timeout = set_timeout

    def _get_sequence_number_for_group(self) -> int:
        """How many calls there were that concern all ranks: equal on ranks that have come equally far."""
        return self._names.calls

    def _set_sequence_number_for_group(self) -> None:
        """It counts from 0 on all ranks: nothing is to be agreed."""

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """Whether its memory would serve calls better than PyTorch's; FSDP asks. False: all-gathers and reduce-scatters
        copy."""
        return False

    def shared_memory(self, name: str, n_bytes: int) -> Any:
        """``n_bytes`` of zeroed memory that the ranks of the group share, as :func:`ronde._shared_buffer.allocate` gives it;
        None where there is no room, which is logged once, or no group any more."""
        if self._over is not None:
            return None
        try:
            return _shared_buffer.allocate(name, n_bytes, self._within.engine)
        except RondeError as error:
            raise_if_the_programs(error)
            if not self._has_told_of_memory:
                self._has_told_of_memory = True
                _log.warning("Ronde: some buckets stay in private memory, which is slower: %s", error)
            return None

    # ---- Its end

    def shutdown(self) -> None:
        """Leaves the group; collective, with a limit of 10 s. Again: does nothing."""
        close, self._close = self._close, None
        close_open()
        self._over = self._over or "was destroyed"
        if close is not None:
            try:
                close()
            finally:
                self._completer.end_group()

    def end_with_job(self) -> None:
        """The job has ended before the group, by ``hvd.shutdown()``. Another job of the process is not its own."""
        self._over = self._over or "has ended with its job, by hvd.shutdown()"

    def abort(self) -> None:
        """As :meth:`shutdown`: what is under way and not called by all ranks fails."""
        self.shutdown()

    # ---- Reductions

    @at_once
    @counted
    @also(_short_forms.allreduce)
    def allreduce(self, tensors: Sequence[Tensor], opts: Any = None) -> dist.Work:
        """Of one tensor, in place; a sparse one (COO) as well."""
        opts = opts or dist.AllreduceOptions()
        if tensors[0].layout is torch.sparse_coo:
            return self._allreduce_sparse(tensors[0], opts)
        return self._allreduce("allreduce", tensors, opts)

    @counted
    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> dist.Work:
        """Of several, in place, as one."""
        return self._allreduce("allreduce_coalesced", tensors, opts or dist.AllreduceCoalescedOptions())

    def _allreduce(self, kind: str, tensors: Sequence[Tensor], opts: Any) -> dist.Work:
        code, factor = reduction_of(opts.reduceOp)
        sources = apart(self._sources(kind, tensors, is_reduced=True))
        return self._start(
            _abi.ALLREDUCE,
            kind,
            sources,
            [source.data_ptr() for source in sources],
            tensors,
            filled(zip(tensors, sources), waits=not self._is_waited_for(opts)),
            opts,
            reduce_op=code,
            prescale=factor,
        )

    def _allreduce_sparse(self, tensor: Tensor, opts: Any) -> dist.Work:
        op = opts.reduceOp
        kind = "allreduce_sparse"
        _sparse.check_reduction(op, kind)
        parts = _sparse.parts_of(tensor, op, kind)
        return self._start(_abi.ALLGATHER, kind, parts, None, [tensor], _sparse.summed_into(tensor, op, kind), opts)

    @counted
    @also(_short_forms.reduce)
    def reduce(self, tensors: Sequence[Tensor], opts: Any = None) -> dist.Work:
        """Of one tensor into the root's; the others' keep their values."""
        opts = opts or dist.ReduceOptions()
        code, factor = reduction_of(opts.reduceOp)
        [source] = self._sources("reduce", tensors[:1])
        is_root = opts.rootRank == self._rank
        return self._start(
            _abi.REDUCE,
            "reduce",
            [source],
            [source.data_ptr()],
            tensors,
            filled([(tensors[0], source)] if is_root else [], waits=not self._is_waited_for(opts)),
            opts,
            reduce_op=code,
            prescale=factor,
            root=opts.rootRank,
        )

    @counted
    def reduce_scatter_single(self, outputTensor: Tensor, inputTensor: Tensor, opts: Any = None) -> dist.Work:
        """Of a tensor of one part for each rank; the output is this rank's."""
        return self._reduce_scatter("reduce_scatter", [outputTensor], [inputTensor], opts)

    @counted
    def reduce_scatter_single_coalesced(
        self, outputTensors: Sequence[Tensor], inputTensors: Sequence[Tensor], opts: Any = None
    ) -> dist.Work:
        """Of several, as one."""
        return self._reduce_scatter("reduce_scatter_coalesced", outputTensors, inputTensors, opts)

    @counted
    @also(_short_forms.reduce_scatter)
    def reduce_scatter(
        self, output_tensors: Sequence[Tensor], input_tensors: Sequence[Sequence[Tensor]], opts: Any = None
    ) -> dist.Work:
        """With the parts in a list. Of equal ones each rank gets its own; of unequal ones all are reduced everywhere."""
        parts, output = input_tensors[0], output_tensors[0]
        require_parts("reduce_scatter", "inputs", parts, self._size)
        own = parts[self._rank]
        require_like("reduce_scatter", "output", output, own.numel(), own.dtype)
        for part in parts:
            require_type("reduce_scatter", "input", part, own.dtype)
        [whole] = self._sources("reduce_scatter", [flat(parts)])
        if all(part.numel() == own.numel() for part in parts):
            return self._reduce_scatter("reduce_scatter", [output], [whole], opts)
        opts = opts or dist.ReduceScatterOptions()
        code, factor = reduction_of(opts.reduceOp)
        pieces = list(torch.split(whole, [part.numel() for part in parts]))  # each by itself, so that the ranks' sizes are compared
        return self._start(
            _abi.ALLREDUCE,
            "reduce_scatter",
            pieces,
            [piece.data_ptr() for piece in pieces],
            [output],
            filled([(output, pieces[self._rank].view(output.shape))]),
            opts,
            shown=[whole],
            reduce_op=code,
            prescale=factor,
        )

    def _reduce_scatter(self, kind: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any) -> dist.Work:
        code, factor = reduction_of((opts or dist.ReduceScatterOptions()).reduceOp)
        require_pairs(kind, outputs, inputs)
        for output, given in zip(outputs, inputs):
            require_like(kind, "input", given, output.numel() * self._size, output.dtype)
        sources = [
            source.reshape(self._size, source.numel() // self._size) for source in self._sources(kind, inputs)
        ]
        return self._start(
            _abi.REDUCESCATTER,
            kind,
            sources,
            None,
            outputs,
            put(outputs),
            opts,
            shown=inputs,
            reduce_op=code,
            prescale=factor,
        )

    # ---- Gathers

    @counted
    @also(_short_forms.broadcast)
    def broadcast(self, tensors: Sequence[Tensor], opts: Any = None) -> dist.Work:
        """The root's tensor into those of the others."""
        opts = opts or dist.BroadcastOptions()
        [source] = self._sources("broadcast", tensors[:1])
        return self._start(
            _abi.BROADCAST,
            "broadcast",
            [source],
            [source.data_ptr()],
            tensors,
            filled([(tensors[0], source)], waits=not self._is_waited_for(opts)),
            opts,
            root=opts.rootRank,
        )

    @counted
    @also(_short_forms.allgather)
    def allgather(
        self, output_tensors: Sequence[Sequence[Tensor]], input_tensors: Sequence[Tensor], opts: Any = None
    ) -> dist.Work:
        """The ranks' tensors, of one size, into a list."""
        return self._allgather("allgather", [list(output_tensors[0])], input_tensors[:1], opts)

    @counted
    def allgather_coalesced(
        self, output_lists: Sequence[Sequence[Tensor]], input_list: Sequence[Tensor], opts: Any = None
    ) -> dist.Work:
        """Of several, as one. PyTorch's layout: a list for each rank, in which its tensors follow each other."""
        require_parts("allgather_coalesced", "outputs", output_lists, self._size, "lists")
        for rank, outputs in enumerate(output_lists):
            if len(outputs) != len(input_list):
                raise InvalidArgumentError(
                    f"allgather_coalesced: the list of outputs for rank {rank} has {len(outputs)} tensors; expected one "
                    f"for each of the {len(input_list)} inputs",
                    1,
                )
        by_input = [[outputs[index] for outputs in output_lists] for index in range(len(input_list))]
        return self._allgather("allgather_coalesced", by_input, input_list, opts)

    @counted
    def all_gather_single(self, output: Tensor, input: Tensor, opts: Any = None) -> dist.Work:
        """The ranks' tensors, one after the other, into one."""
        return self._allgather_single("allgather", [output], [input], opts)

    @counted
    def all_gather_single_coalesced(
        self, output_lists: Sequence[Tensor], input_list: Sequence[Tensor], opts: Any = None
    ) -> dist.Work:
        """Of several, as one."""
        return self._allgather_single("allgather_coalesced", output_lists, input_list, opts)

    def _allgather(self, kind: str, output_lists: List[List[Tensor]], inputs: Sequence[Tensor], opts: Any) -> dist.Work:
        for outputs, given in zip(output_lists, inputs):
            require_parts(kind, "outputs", outputs, self._size)
            for output in outputs:
                require_like(kind, "output", output, given.numel(), given.dtype)
        flat_outputs = [output for outputs in output_lists for output in outputs]
        sources = [source.reshape(1, -1) for source in self._sources(kind, inputs)]
        return self._start(_abi.ALLGATHER, kind, sources, None, flat_outputs, put(output_lists), opts, shown=inputs)

    def _allgather_single(self, kind: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any) -> dist.Work:
        require_pairs(kind, outputs, inputs)
        for output, given in zip(outputs, inputs):
            require_like(kind, "output", output, given.numel() * self._size, given.dtype)
        sources = [source.reshape(1, -1) for source in self._sources(kind, inputs)]
        return self._start(_abi.ALLGATHER, kind, sources, None, outputs, put(outputs), opts, shown=inputs)

    @counted
    @also(_short_forms.gather)
    def gather(
        self, output_tensors: Sequence[Sequence[Tensor]], input_tensors: Sequence[Tensor], opts: Any = None
    ) -> dist.Work:
        """The ranks' tensors, of one size, into the root's list."""
        root = (opts or dist.GatherOptions()).rootRank
        outputs = list(output_tensors[0]) if root == self._rank else []
        if root == self._rank:
            require_parts("gather", "outputs", outputs, self._size)
        for output in outputs:
            require_like("gather", "output", output, input_tensors[0].numel(), input_tensors[0].dtype)
        sources = [source.reshape(1, -1) for source in self._sources("gather", input_tensors[:1])]
        finish = put([outputs]) if outputs else nothing
        shown = input_tensors[:1]
        return self._start(_abi.GATHER, "gather", sources, None, outputs, finish, opts, root=root, shown=shown)

    @counted
    @also(_short_forms.scatter)
    def scatter(
        self, output_tensors: Sequence[Tensor], input_tensors: Sequence[Sequence[Tensor]], opts: Any = None
    ) -> dist.Work:
        """The tensors of the root's list, of one size, one to each rank."""
        root = (opts or dist.ScatterOptions()).rootRank
        output = output_tensors[0]
        if root == self._rank:
            parts = input_tensors[0]
            require_parts("scatter", "inputs", parts, self._size)
            for part in parts:
                require_like("scatter", "input", part, output.numel(), output.dtype)
            source = flat(parts).reshape(self._size, output.numel())
        else:
            source = torch.empty((0, output.numel()), dtype=output.dtype, device="cpu")
        return self._start(_abi.SCATTER, "scatter", [source], None, [output], put([output]), opts, root=root)

    # ---- All-to-all

    @counted
    def all_to_all_single(
        self,
        output_tensor: Tensor,
        input_tensor: Tensor,
        output_split_sizes: Sequence[int] = (),
        input_split_sizes: Sequence[int] = (),
        opts: Any = None,
    ) -> dist.Work:
        """The rows of a tensor, some to each rank: equally many where no numbers are given."""
        require_type("alltoall", "output", output_tensor, input_tensor.dtype)
        sent = elements_by_rank("input", input_tensor, input_split_sizes, self._size)
        expected = elements_by_rank("output", output_tensor, output_split_sizes, self._size)
        [source] = self._sources("alltoall", [input_tensor])
        shown = [input_tensor]
        return self._alltoall(source.reshape(-1), shown, sent, expected, [output_tensor], put([output_tensor]), opts)

    @counted
    def alltoall(self, output_tensor: Sequence[Tensor], input_tensor: Sequence[Tensor], opts: Any = None) -> dist.Work:
        """The tensors of a list, of any sizes, one to each rank."""
        require_parts("alltoall", "inputs", input_tensor, self._size)
        require_parts("alltoall", "outputs", output_tensor, self._size)
        for each in (*input_tensor, *output_tensor):
            require_type("alltoall", "tensor", each, input_tensor[0].dtype)
        sent = [part.numel() for part in input_tensor]
        expected = [part.numel() for part in output_tensor]
        finish = put([list(output_tensor)])
        return self._alltoall(flat(input_tensor), input_tensor, sent, expected, output_tensor, finish, opts)

    def _alltoall(
        self,
        source: Tensor,
        shown: Sequence[Tensor],
        sent: List[int],
        expected: List[int],
        outputs: Sequence[Tensor],
        finish: Callable[[Operation], Any],
        opts: Any,
    ) -> dist.Work:
        def finish_if_expected(operation: Operation) -> None:
            received = operation.received_splits()
            if received != expected:
                raise InvalidArgumentError(
                    f"alltoall: the outputs have room for {expected} elements from the ranks, which have sent {received}", 1
                )
            finish(operation)

        return self._start(
            _abi.ALLTOALL, "alltoall", [source], None, outputs, finish_if_expected, opts, shown=shown, splits=sent
        )

    # ---- Point to point, and the barrier

    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int = 0) -> dist.Work:
        """To one rank; done when it has the tensor."""
        sources = self._sources("send", tensors[:1])
        return self._start(_abi.SEND, "send", sources, None, tensors, nothing, root=dstRank, tag=tag)

    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int = 0) -> dist.Work:
        """From one rank."""
        [buffer] = self._sources("recv", tensors[:1])
        fill = filled([(tensors[0], buffer)])

        def finish(operation: Operation) -> int:
            source = operation.source()
            fill(operation)
            return source if self._within.ranks is None else self._within.ranks.index(source)

        return self._start(_abi.RECV, "recv", [buffer], None, tensors, finish, root=srcRank, tag=tag)

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int = 0) -> dist.Work:
        """From whichever rank sends first under the tag."""
        return self.recv(tensors, _abi.ANY_SOURCE, tag)

    def barrier(self, opts: Any = None, timeout: Any = None) -> dist.Work:
        """Ends when every rank has called it."""
        if isinstance(opts, timedelta):  # of the short form
            opts, timeout = None, opts
        if timeout is not None:
            opts = dist.BarrierOptions()
            opts.timeout = timeout
        close_open()
        return self._start(_abi.BARRIER, "barrier", [], None, [], nothing, opts)

    def monitored_barrier(self, timeout: Optional[timedelta] = None, wait_all_ranks: bool = False) -> None:
        """A barrier whose error, after the time-out, names all ranks that have not come: on every rank that has."""
        try:
            self.barrier(timeout=_monitored.limit_of(timeout)).wait()
        except TimedOutError as error:
            rank = self._rank if self._within.ranks is None else self._within.ranks[self._rank]
            raise _monitored.in_words_of_gloo(error, rank, wait_all_ranks) from None

    # ---- Calls that PyTorch makes as one

    def _start_coalescing(self, device: torch.device) -> None:
        self._batch.works = []

    def _end_coalescing(self, device: torch.device) -> AllOf:
        works, self._batch.works = self._batch.works or [], None
        return AllOf(works)

    def split_group(self, *arguments: Any, **settings: Any) -> Any:
        """Is not there: UnsupportedError (a NotImplementedError)."""
        raise UnsupportedError("the backend ronde does not split groups: make them with new_group()", 3)

    # ---- What they have in common

    def _sources(self, kind: str, tensors: Sequence[Tensor], is_reduced: bool = False) -> List[Tensor]:
        if all(map(is_ready, tensors)):
            return list(tensors)
        for tensor in tensors:
            check(tensor, kind)
        return staged_together(tensors, is_reduced)

    def _start(
        self,
        op: int,
        kind: str,
        sources: Sequence[Tensor],
        outputs: Optional[Sequence[int]],
        results: Sequence[Tensor],
        finish: Callable[[Operation], Any],
        opts: Any = None,
        root: int = 0,
        shown: Optional[Sequence[Tensor]] = None,
        reduce_op: int = _abi.SUM,
        prescale: float = 1.0,
        splits: Optional[Sequence[int]] = None,
        tag: int = 0,
    ) -> dist.Work:
        """``shown``: to PyTorch's profiler, where the caller's tensors have other shapes than the sources."""
        if self._over is not None:
            raise InvalidArgumentError(f"{kind}: the process group '{self._name}' {self._over}", 1)
        is_pairwise = op in (_abi.SEND, _abi.RECV)
        name = self._names.take(kind, is_pairwise)
        is_waited_for = self._is_waited_for(opts)
        self._names.count(is_pairwise)
        record = _record.begin(kind, sources if shown is None else shown, root)
        try:
            operation = _operation.submit(
                op,
                name,
                [view_of(source) for source in sources],
                outputs,
                kept(*sources, *results),
                timeout_s=self._limit_of(opts),
                engine=self._within.engine,
                group=self._within.group,
                root=self._within.ranks[root] if self._within.ranks is not None and root >= 0 else root,
                wait=is_waited_for,
                reduce_op=reduce_op,
                prescale=prescale,
                splits=splits,
                tag=tag,
            )
        except BaseException:
            self._names.give_back(name)
            self._batch.works = None  # PyTorch does not end what has failed
            if record is not None:
                _record.end(record)
            raise
        if is_waited_for:
            return Ended(operation, results, finish, record)
        work = None
        try:
            work = Work.blank()
            Work.__init__(work, operation, name, self._completer, list(results), finish, is_pairwise, record)
            work.belongs_to(self._names)
        except BaseException:  # a signal handler's
            operation.cancel()
            operation.abandon()
            raise
        if self._batch.works is not None:
            self._batch.works.append(work)
        return work

    def _is_waited_for(self, opts: Any) -> bool:
        """PyTorch's functions with async_op=False say so and wait at once: then one call of the library does both."""
        return self._batch.works is None and not getattr(opts, "asyncOp", True)

    def _limit_of(self, opts: Any) -> float:
        """Of one call, in seconds; 0: as the engine's settings say."""
        timeout = getattr(opts, "timeout", None)
        if timeout is not None and timeout > _NO_TIME:
            return float(timeout.total_seconds())
        return self._timeout_s

    # Earlier releases of PyTorch, and C++, know these methods by other names.
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    alltoall_base = all_to_all_single  # type: ignore[assignment] # torch's stubs have more forms
