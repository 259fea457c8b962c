// Part of <ronde/ronde.hpp>: a request under way, and its result.
#pragma once

#include <ronde/ronde.h>
#include <ronde/error.hpp>
#include <ronde/tensor.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ronde {
inline namespace v0 {

/// A request under way, or finished. Move-only; its destructor waits until the engine touches the tensors no more (it
/// does not cancel) and frees the name. An empty ticket counts as done.
class Ticket {
 public:
  Ticket() = default;
  /// Takes over a ticket of the C interface.
  explicit Ticket(ronde_ticket* handle) : handle_(handle) {}

  /// Returns when the request is done; throws its error if it failed. The name is then free. The waiting thread does
  /// the work itself where it can. In a completion callback: Code::would_deadlock. May be called again.
  void wait() const {
    ronde_status status = RONDE_OK;
    do {
      status = handle_ ? ronde_wait(handle_.get(), -1) : RONDE_OK;
    } while (status == RONDE_INTERRUPTED);
    if (status != RONDE_OK) {
      throw detail::error_of(handle_.get(), status);
    }
  }

  /// As wait(), but gives up after `limit`, returning false; the request is then still under way.
  bool wait_for(std::chrono::duration<double> limit) const {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    while (handle_) {
      const double left_s = (limit - (Clock::now() - start)).count();
      ronde_status status = ronde_wait(handle_.get(), left_s > 0 ? left_s : 0);
      if (status == RONDE_TIMED_OUT) {
        if (!is_done()) {
          return false;
        }
        status = ronde_wait(handle_.get(), 0);  // how it has ended meanwhile, or when its own limit passed
      }
      if (status == RONDE_OK) {
        return true;
      }
      if (status != RONDE_INTERRUPTED) {
        throw detail::error_of(handle_.get(), status);
      }
    }
    return true;
  }

  /// Whether wait() would return at once; never blocks and does no work.
  bool is_done() const {
    std::int32_t done = 1;
    if (handle_) {
      detail::check(ronde_test(handle_.get(), &done));
    }
    return done != 0;
  }

  /// The program does not want its end: unless all ranks have submitted the request, or do so before they hear of this,
  /// it fails on every rank with Code::cancelled; a send or recv that has not met its other side ends alone. Returns at
  /// once; wait() tells how it has ended.
  void cancel() const {
    if (handle_) {
      detail::check(ronde_cancel(handle_.get()));
    }
  }

  /// Of the C interface, owned by this object; null for an empty ticket.
  ronde_ticket* handle() const noexcept { return handle_.get(); }

 private:
  struct Release {
    void operator()(ronde_ticket* ticket) const noexcept { ronde_release(ticket); }
  };
  std::unique_ptr<ronde_ticket, Release> handle_;
};

/// Waits for all of them, then throws the error of the first, in the order given, that failed.
inline void wait_all(std::span<const Ticket> tickets) {
  std::exception_ptr first;
  for (const Ticket& ticket : tickets) {
    try {
      ticket.wait();
    } catch (const Error&) {
      if (!first) {
        first = std::current_exception();
      }
    }
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

/// Waits until one is done and returns its index, the smallest if several are. Throws if that one failed. Requires:
/// none is empty.
inline std::size_t wait_any(std::span<const Ticket> tickets) {
  std::vector<ronde_ticket*> handles;
  handles.reserve(tickets.size());
  for (const Ticket& ticket : tickets) {
    handles.push_back(ticket.handle());
  }
  std::size_t index = handles.size();
  ronde_status status = RONDE_OK;
  do {
    status = ronde_wait_any(handles.data(), handles.size(), -1, &index);
  } while (status == RONDE_INTERRUPTED);
  if (status != RONDE_OK) {
    throw detail::error_of(index < handles.size() ? handles[index] : nullptr, status);
  }
  return index;
}

/// What an all-gather, all-to-all or reduce-scatter gave: owns its memory. Move-only.
template <Element T>
class Gathered {
 public:
  /// Takes over a ticket of the C interface that has succeeded. Throws Code::internal if its output has another type.
  explicit Gathered(Ticket ticket) : ticket_(std::move(ticket)) {
    void* data = nullptr;
    const std::int64_t* extents = nullptr;
    std::int32_t ndim = 0;
    ronde_dtype dtype = 0;
    detail::check(ronde_ticket_output(ticket_.handle(), 0, &data, &extents, &ndim, &dtype));
    if (dtype != static_cast<ronde_dtype>(DTypeOf<T>::value)) {
      throw Error(Code::internal, "the output has another element type than the input");
    }
    shape_.assign(extents, extents + ndim);
    std::size_t count = 1;
    for (const std::int64_t extent : shape_) {
      count *= static_cast<std::size_t>(extent);
    }
    view_ = {static_cast<T*>(data), count};
  }

  /// All elements; valid as long as this object.
  std::span<T> view() const noexcept { return view_; }
  /// As the input's, but for dimension 0.
  const std::vector<std::int64_t>& shape() const noexcept { return shape_; }
  /// Of an all-to-all: how many rows came from each rank. Valid as long as this object; throws for another operation.
  std::span<const std::int64_t> received_splits() const {
    const std::int64_t* splits = nullptr;
    std::size_t count = 0;
    detail::check(ronde_ticket_splits(ticket_.handle(), &splits, &count));
    return {splits, count};
  }

 private:
  Ticket ticket_;
  std::span<T> view_;
  std::vector<std::int64_t> shape_;
};

/// An operation under way that makes its output. Move-only; the destructor is that of Ticket.
template <Element T>
class GatherTicket {
 public:
  explicit GatherTicket(Ticket ticket) : ticket_(std::move(ticket)) {}

  bool is_done() const { return ticket_.is_done(); }
  /// Waits, throws the error if it failed, else hands the result over; once only.
  Gathered<T> take() {
    ticket_.wait();
    return Gathered<T>(std::move(ticket_));
  }

 private:
  Ticket ticket_;
};

}  // namespace v0
}  // namespace ronde
