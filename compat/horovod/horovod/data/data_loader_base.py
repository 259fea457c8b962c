"""Loaders of batches: a base to build one's own on, and a mixin that reads ahead in a thread."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any, Iterator, Optional

#: How often a thread that waits looks whether it is still wanted, in seconds.
_LOOK_EVERY_S = 0.1


class BaseDataLoader:
    """Iterates over batches. Subclasses define ``__len__`` and ``_iterate``, and may define ``_process_batch``."""

    def __len__(self) -> int:
        raise NotImplementedError

    def _iterate(self) -> Iterator[Any]:
        """Makes the batches of one pass."""
        raise NotImplementedError

    def _process_batch(self, batch: Any) -> Any:
        """Changes a batch in the thread that takes it: moves it to a device, say."""
        return batch

    def __iter__(self) -> Iterator[Any]:
        for batch in self._iterate():
            yield self._process_batch(batch)


class _Pass:
    """One pass over a loader, made in a thread of its own, a few batches ahead of who takes them."""

    def __init__(self, batches: Iterator[Any], ahead: int) -> None:
        self._queue: "queue.Queue[Any]" = queue.Queue(ahead)
        self._error: Optional[BaseException] = None
        self._wanted = True
        self._thread = threading.Thread(target=self._fill, args=(batches,), daemon=True, name="horovod-data-loader")
        self._thread.start()

    def _put(self, item: Any) -> bool:
        while self._wanted:
            try:
                self._queue.put(item, timeout=_LOOK_EVERY_S)
                return True
            except queue.Full:
                pass
        return False

    def _fill(self, batches: Iterator[Any]) -> None:
        try:
            for batch in batches:
                if not self._put((batch,)):
                    return
        except BaseException as error:  # raised again where the batch would have been taken
            self._error = error
        self._put(None)

    def take(self) -> Iterator[Any]:
        """The batches. Raises what making them has raised."""
        while True:
            try:
                item = self._queue.get(timeout=_LOOK_EVERY_S)
            except queue.Empty:
                if not self._wanted:
                    return
                continue
            if item is None:
                break
            yield item[0]
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Ends the thread; who is taking batches gets no more."""
        self._wanted = False
        if self._thread is not threading.current_thread():
            self._thread.join()


# What a mixin stands before is a base for type checkers only.
if TYPE_CHECKING:
    _Base = BaseDataLoader
else:
    _Base = object


class AsyncDataLoaderMixin(_Base):
    """Put before a :class:`BaseDataLoader` among the bases, it makes batches in a thread, ahead of their use.

    Args:
        async_loader_queue_size: how many batches ahead; 0: none, and no thread.
        debug_data_loader: accepted; there is nothing to print.
        args, kwargs: the next base's.
    """

    def __init__(
        self, async_loader_queue_size: int = 64, debug_data_loader: bool = False, *args: Any, **kwargs: Any
    ) -> None:
        self.async_loader_queue_size = async_loader_queue_size
        self.debug_data_loader = debug_data_loader
        self._pass: Optional[_Pass] = None
        super().__init__(*args, **kwargs)

    def close_async_loader(self) -> None:
        """Ends the thread; an iteration under way gets no more batches. Does nothing if there is none."""
        if self._pass is not None:
            self._pass.close()
            self._pass = None

    def __iter__(self) -> Iterator[Any]:
        if self.async_loader_queue_size <= 0:
            yield from super().__iter__()
            return
        self.close_async_loader()
        self._pass = _Pass(self._iterate(), self.async_loader_queue_size)
        for batch in self._pass.take():
            yield self._process_batch(batch)

    def __del__(self) -> None:
        self.close_async_loader()
