"""Work: what a call of ``torch.distributed`` returns while the engine is at it."""

from __future__ import annotations

import threading
import time
import weakref
from ctypes import c_double, c_void_p
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence

import torch
import torch.distributed as dist

from ronde import _abi
from ronde._calls import Unnamed
from ronde._lib import library
from ronde._operation import Operation, in_forked_child, let_others_run
from ronde.exceptions import RondeError, TimedOutError
from ronde.torch.distributed import _behind, _left_futures, _record
from ronde.torch.distributed._completer import Completer
from ronde.torch.distributed._lineage import Origin
from ronde.torch.distributed._memory import nothing
from ronde.torch.distributed._names import Names, in_backward_pass


#: Between two looks at whether another thread, which would tell, was interrupted before it could, in seconds.
_LOOK_S = 1.0


class Work(dist.Work):
    """One call under way. Its results are in the caller's tensors once it was waited for, or its future is done.

    Whoever comes first, a waiting thread or the one that completes futures, brings it to its end; others wait for that.
    """

    # Defaults of the class: what most works never set costs them nothing.
    _operation: Optional[Operation] = None
    _claimed_by = 0  # the thread that brings it to its end, or has; 0: none
    _is_finished = False  # its results are where they belong, or its error is known
    _is_over = False
    _over: Optional[threading.Event] = None  # made when somebody has to wait for another thread
    _error: Optional[BaseException] = None
    _source = -1
    _future: Any = None
    _trigger: Any = None
    _names: Optional[Names] = None
    _calls = 0

    def __init__(
        self,
        operation: Operation,
        name: object,
        completer: Completer,
        results: List[torch.Tensor],
        finish: Callable[[Operation], Any],
        is_pairwise: bool = False,
        record: Any = None,
    ) -> None:
        """``finish`` fills the results when the operation has succeeded; again if a signal handler has raised within.
        ``name``: its text names the call. ``is_pairwise``: a send or recv. ``record``: of the profiler, ended with the work.

        A signal handler may raise as this returns. Who has to end the operation then makes the work by :meth:`blank`, and
        calls this itself: the work is in a variable before there is an operation."""
        super().__init__()
        self._name = name
        self._completer = completer
        self._results = results
        self._finish = finish
        self._is_pairwise = is_pairwise
        self._record = record
        self._lock = threading.Lock()
        self._operation = operation  # last: where a signal handler raises before, there is nothing to end

    @classmethod
    def blank(cls) -> "Work":
        """One without an operation, for :meth:`__init__`."""
        return cls.__new__(cls)

    def begin(self, operation: Operation, results: List[torch.Tensor], group: Any) -> bool:
        """What :meth:`__init__` does, of an operation of the group that writes to the results themselves. True."""
        Work.__init__(self, operation, operation, group._completer, results, nothing)
        self._names, self._calls = group._names, group._names.calls + 1
        return True

    def belongs_to(self, names: Names) -> None:
        """Of a call of that group, the last one of its kind that it has counted."""
        self._names, self._calls = names, names.pairs if self._is_pairwise else names.calls

    def give_up(self) -> None:
        """Of a work that nobody else has seen: a signal handler has raised before its caller had it. Its operation is
        cancelled, as :meth:`ronde._operation.Operation.cancel` says."""
        operation = self._operation
        if operation is not None and not operation.is_abandoned:
            operation.cancel()
            operation.abandon()

    # ---- What PyTorch calls

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Until the call has ended; True. Raises what :mod:`ronde.exceptions` says if it has failed, TimedOutError
        after ``timeout``: it is then still under way. If a signal handler raises meanwhile, and nobody
        else here waits for it, the call is cancelled."""
        self._bring_to_end(None if timeout is None or timeout <= timedelta(0) else timeout.total_seconds())
        if self._error is not None:
            raise self._error
        return True

    def get_future(self) -> Any:
        """Of the tensors, a list; the same one each time. It is completed by a thread of the group."""
        with self._lock:
            if self._future is not None:
                return self._future
            self._trigger = _behind.future_of(self._origin())
            # Only an error raised in a continuation is one that C++, DDP for instance, understands.
            self._future = self._trigger.then(lambda over: over.value() or self.result())
            _behind.belongs(self._future, self._trigger)
            is_over = self._is_over
        if is_over:
            _behind.complete(self._trigger)
            return self._future
        # At the end of a backward pass its own thread brings the work to its end, without another one's help. DDP looks
        # at the futures later: it queues what does so last.
        # A send or recv may wait for what the program does next, so that one is left to the thread of the group.
        in_pass = in_backward_pass()
        if in_pass:
            torch.autograd.Variable._execution_engine.queue_callback(_Ending(self))
        if not (in_pass or _left_futures.is_as_in_a_pass()) or self._is_pairwise or not _left_futures.leave(self):
            self._completer.add(self)
        return self._future

    def _origin(self) -> Origin:
        """What its future is the future of."""
        names = self._names
        assert names is not None
        if self._is_pairwise:
            return Origin(names, "pair", self._calls)
        name = self._name.name if isinstance(self._name, Operation) else self._name
        if isinstance(name, Unnamed):
            return Origin(names, "call", name.number)
        return Origin(names, "barrier", self._calls)

    def is_completed(self) -> bool:
        """Whether it has ended, well or not; never blocks."""
        return self._is_over or (not _left_futures.keeps(self) and self._is_completed())

    def _is_completed(self) -> bool:
        operation = self._operation  # which another thread may release meanwhile
        if not self._is_over and operation is not None and operation.done():
            try:
                if self._claim():
                    self._settle(None)
                else:
                    let_others_run()  # the one that is about to tell what it has waited for
            except BaseException:
                self._recover()
                raise
        return self._is_over

    def is_success(self) -> bool:
        """Whether it has ended well; never blocks."""
        return self.is_completed() and self._error is None

    def exception(self) -> Optional[BaseException]:
        """Why it has failed; None if it has not, or not yet."""
        return self._error

    def result(self) -> List[torch.Tensor]:
        """The tensors, after it has ended; raises why it has failed, and RuntimeError while it is under way: they are not its
        results yet."""
        if not self._is_over and not self._is_completed():
            raise RuntimeError(f"'{self._name}' has not ended: call wait() before result()")
        if self._error is not None:
            raise self._error
        return self._results

    def source_rank(self) -> int:
        """Of a recv the rank in the group that has sent."""
        self.wait()
        return self._source

    _source_rank = source_rank

    def synchronize(self) -> None:
        """As :meth:`wait`: there are no streams in host memory."""
        self.wait()

    def __del__(self) -> None:
        operation, self._operation = self._operation, None
        if operation is None or operation.is_abandoned:
            return
        # Nobody will wait for it; its results are to come all the same.
        heir = Work(operation, self._name, self._completer, self._results, self._finish)
        heir._record, heir._is_finished = self._record, self._is_finished
        if in_forked_child() or not self._completer.adopt(heir):
            heir._operation = None
            operation.abandon()

    # ---- Bringing it to its end

    def _claim(self) -> bool:
        """Whether it is for this thread to bring it to its end; True once. Whatever is raised from then on, even by a
        signal handler: :meth:`_recover` is called."""
        with self._lock:
            if self._claimed_by:
                return False
            self._claimed_by = threading.get_ident()
            return True

    def _bring_to_end(self, limit: Optional[float] = None) -> None:
        """Until it has ended, well or not. TimedOutError after so many seconds."""
        until = None if limit is None else time.monotonic() + limit
        left = limit
        try:
            while not self._is_over:
                if self._claim():
                    self._settle(left)
                else:
                    self._until_over(left)
                    left = None if until is None else max(0.0, until - time.monotonic())
        except BaseException as error:
            if not isinstance(error, TimedOutError):  # a signal handler's: who waits may do so for a call of its own
                self._cancel()
            self._recover()
            raise

    def _settle(self, limit: Optional[float], complete: Callable[[Any], None] = _behind.complete) -> None:
        """Requires: claimed by this thread. ``complete``: is given the future to complete, if one is out."""
        operation = self._operation
        assert operation is not None
        if limit is not None and not _wait_for(operation, limit):
            raise self._timed_out(limit)
        if not self._is_finished:
            try:
                operation.wait(again=True)
                made = None if hasattr(operation, "is_unwanted") else self._finish(operation)
                if isinstance(made, int):
                    self._source = made
            except RondeError as error:
                self._error = error
            self._is_finished = True
        operation.release()
        self._end(complete)

    def _fail(self, error: BaseException, complete: Callable[[Any], None]) -> None:
        """Ends it with an error that is not the engine's. Requires: claimed by this thread."""
        operation = self._operation
        self._error, self._is_finished = error, True
        if operation is not None:
            operation.abandon()
        self._end(complete)

    def _fail_future(self) -> None:
        """The pass in which the future was asked for was ended by an error: nothing that expects a result runs behind it."""
        with self._lock:
            if self._is_over:  # who has ended it completes the future
                return
            trigger, self._trigger = self._trigger, None
        if trigger is not None:
            text = f"'{self._name}': an error has ended the backward pass in which this future was asked for"
            trigger.set_exception(RondeError(text, _abi.CANCELLED))
            _behind.forget(trigger)

    def _end(self, complete: Callable[[Any], None]) -> None:
        with self._lock:
            self._operation = None
            self._is_over = True
            record, self._record = self._record, None
            over, trigger = self._over, self._trigger
        if record is not None:
            _record.end(record)
        if over is not None:
            over.set()
        if trigger is not None:
            complete(trigger)

    def _cancel(self) -> None:
        """It ends on every rank, unless all ranks have made the call by now. Nothing if others here wait for it too."""
        with self._lock:
            operation = self._operation
            if operation is None or self._trigger is not None or self._over is not None:
                return
        operation.cancel()
        is_claimed = self._claimed_by == threading.get_ident() or self._claim()
        if is_claimed and not self._is_over and operation.done():
            self._settle(None)

    def _recover(self) -> None:
        """If this thread was about to bring it to its end and has not: it is still under way, and what others wait for
        is the completer's."""
        with self._lock:
            if self._claimed_by != threading.get_ident():
                return
            is_over, trigger = self._is_over, self._trigger
            if not is_over:
                self._claimed_by = 0
        if is_over:
            if trigger is not None and not _left_futures.is_done(trigger):
                self._completer.complete([trigger])
        elif trigger is not None or self._over is not None:
            self._completer.add(self)

    def _until_over(self, limit: Optional[float]) -> None:
        """Until another thread, which has claimed it, has ended it or given up."""
        with self._lock:
            if self._is_over or not self._claimed_by:
                return
            over = self._over = self._over or threading.Event()
        until = None if limit is None else time.monotonic() + limit
        while not self._is_over and self._claimed_by:
            left = _LOOK_S if until is None else min(_LOOK_S, until - time.monotonic())
            if left <= 0:
                raise self._timed_out(limit)
            if over.wait(left):
                return

    def _timed_out(self, limit: Optional[float]) -> TimedOutError:
        text = f"Timed out: '{self._name}' was not done within {limit} s, as given to wait()"
        return TimedOutError(text, _abi.TIMED_OUT)


def _wait_for(operation: Operation, limit: float) -> bool:
    """Whether it has ended within so many seconds, well or not."""
    until = time.monotonic() + limit
    while not operation.done():
        left = until - time.monotonic()
        if left <= 0:
            return False
        library().ronde_wait(c_void_p(operation.ticket), c_double(min(left, 0.05)))
    return True


class _Ending:
    """Called at the end of a pass: returns when the work has ended, and what was left before it. It does not keep the work
    and so its tensors: what has not ended is kept by who will end it. Autograd drops it where an error ends the pass."""

    _work: Optional["weakref.ref[Work]"] = None  # a signal handler may raise before there is one
    _was_called = False

    def __init__(self, work: Work) -> None:
        self._work = weakref.ref(work)

    def __call__(self) -> None:
        assert self._work is not None
        _left_futures.bring_to_end()
        still = self._work()
        if still is not None:
            still._bring_to_end()
        self._was_called = True

    def __del__(self) -> None:
        work = None if self._was_called or self._work is None else self._work()
        if work is not None and _left_futures.dismiss(work):
            work._fail_future()


class Done(dist.Work):
    """A call that has ended well when it returns."""

    _results: Sequence[torch.Tensor] = ()

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """True."""
        return True

    def synchronize(self) -> None:
        """Nothing is to be waited for."""

    def get_future(self) -> Any:
        """Of the tensors, a list; done."""
        future: Any = torch.futures.Future()
        future.set_result(self.result())
        return future

    def is_completed(self) -> bool:
        """True."""
        return True

    is_success = is_completed

    def exception(self) -> Optional[BaseException]:
        """None."""
        return None

    def result(self) -> List[torch.Tensor]:
        """The tensors."""
        return list(self._results)


class Ended(Done):
    """The same, of an operation with something to be done at the end."""

    def __init__(
        self, operation: Operation, results: Sequence[torch.Tensor], finish: Callable[[Operation], Any], record: Any
    ) -> None:
        """``operation``: has succeeded. Raises what ``finish`` does."""
        super().__init__()
        self._results = results
        try:
            finish(operation)
        finally:
            operation.release()
            if record is not None:
                _record.end(record)


class AllOf(dist.Work):
    """Several works as one."""

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__()
        self._works = list(works)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Until all have ended; raises the error of the first that has failed."""
        for work in self._works:
            work.wait(timeout)
        return True

    def get_future(self) -> Any:
        """Of the tensors of all, one list."""
        together = torch.futures.collect_all([work.get_future() for work in self._works])
        return together.then(lambda done: [tensor for each in done.value() for tensor in each.value()])

    def is_completed(self) -> bool:
        """Whether all have ended; never blocks."""
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        """Whether all have ended well; never blocks."""
        return all(work.is_success() for work in self._works)

    def result(self) -> List[torch.Tensor]:
        """The tensors of all."""
        return [tensor for work in self._works for tensor in work.result()]
