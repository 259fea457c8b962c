#include "dones.h"

#include <dlfcn.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "flights.h"
#include "waiters.h"

namespace ronde::tf {

namespace {

/// How long an operation waits in TensorFlow's thread before it gives it back, in seconds: about what the way over two
/// other threads takes.
constexpr double kPatience = 50e-6;

DataType type_of(ronde_dtype dtype) {
  switch (dtype) {
    case RONDE_FLOAT64: return DataType::float64;
    case RONDE_INT32: return DataType::int32;
    case RONDE_UINT8: return DataType::uint8;
    case RONDE_INT16: return DataType::int16;
    case RONDE_INT8: return DataType::int8;
    case RONDE_COMPLEX64: return DataType::complex64;
    case RONDE_INT64: return DataType::int64;
    case RONDE_BOOL: return DataType::boolean;
    case RONDE_BFLOAT16: return DataType::bfloat16;
    case RONDE_UINT16: return DataType::uint16;
    case RONDE_COMPLEX128: return DataType::complex128;
    case RONDE_FLOAT16: return DataType::float16;
    case RONDE_UINT32: return DataType::uint32;
    case RONDE_UINT64: return DataType::uint64;
    default: return DataType::float32;
  }
}

/// Takes the flights of the tokens from this input on; fewer, and a failure, if one is not known.
Flights take_flights(Run& run, int first, int end) {
  Flights flights;
  for (int i = first; i < end && run.is_ok(); ++i) {
    const std::int64_t token = run.integer(i);
    if (!run.is_ok()) {
      break;
    }
    std::shared_ptr<Flight> flight = FlightTable::instance().take(token);
    if (flight == nullptr) {
      run.fail(Code::internal,
               "RondeDone waits for a request that is not under way: each RondeStart has one RondeDone");
      break;
    }
    flights.push_back(std::move(flight));
  }
  return flights;
}

/// Waits for all of them, as ronde_wait_all() does.
ronde_status wait_for(const Flights& flights, double limit_s) {
  std::vector<ronde_ticket*> tickets;
  tickets.reserve(flights.size());
  for (const std::shared_ptr<Flight>& flight : flights) {
    tickets.push_back(flight->ticket());
  }
  ronde_status status = RONDE_OK;
  do {
    status = ronde_wait_all(tickets.data(), tickets.size(), limit_s);
  } while (status == RONDE_INTERRUPTED);
  return status;
}

/// Waits until all of them have ended, which need not be waited for where they have; the first that failed is the
/// run's failure.
void end_all(Run& run, const Flights& flights) {
  const ronde_status status = wait_for(flights, -1);
  if (status == RONDE_OK) {
    return;
  }
  const Outcome said = bindings::last_failure(status);
  for (const std::shared_ptr<Flight>& flight : flights) {
    if (const Outcome outcome = flight->outcome(); !outcome.is_ok()) {
      run.fail(outcome);
      return;
    }
  }
  run.fail(said);
}

/// Copies the i-th result of a request into the i-th output.
void give_rows(Run& run, ronde_ticket* ticket, int index) {
  void* data = nullptr;
  const std::int64_t* extents = nullptr;
  std::int32_t dimensions = 0;
  ronde_dtype dtype = 0;
  const ronde_status status =
      ronde_ticket_output(ticket, static_cast<std::size_t>(index), &data, &extents, &dimensions, &dtype);
  if (status != RONDE_OK) {
    run.fail(bindings::last_failure(status));
    return;
  }
  std::size_t bytes = ronde_dtype_bytes(dtype);
  for (std::int32_t i = 0; i < dimensions; ++i) {
    bytes *= static_cast<std::size_t>(extents[i]);
  }
  if (Tensor* tensor = run.allocate(index, type_of(dtype), extents, dimensions, bytes)) {
    if (bytes > 0) {
      std::memcpy(functions().tensor_data(tensor), data, bytes);
    }
    functions().delete_tensor(tensor);
  }
}

/// Gives the rows that came from each rank; none where the request does not tell.
void give_received_splits(Run& run, ronde_ticket* ticket, int index) {
  const std::int64_t* splits = nullptr;
  std::size_t count = 0;
  if (ronde_ticket_splits(ticket, &splits, &count) != RONDE_OK) {
    count = 0;
  }
  const auto extent = static_cast<std::int64_t>(count);
  if (Tensor* tensor = run.allocate(index, DataType::int64, &extent, 1, count * sizeof(std::int64_t))) {
    if (count > 0) {
      std::memcpy(functions().tensor_data(tensor), splits, count * sizeof(std::int64_t));
    }
    functions().delete_tensor(tensor);
  }
}

/// What an operation does of its requests: takes them, and gives their results once they have ended.
struct Kind {
  Flights (*take)(Run& run);
  void (*give)(Run& run, const Flights& flights);
};

constexpr Kind kFixedShapes = {
    [](Run& run) {
      return take_flights(run, functions().num_outputs(run.context()), functions().num_inputs(run.context()));
    },
    [](Run& run, const Flights&) {
      const Functions& tf = functions();
      for (int i = 0; i < tf.num_outputs(run.context()) && run.is_ok(); ++i) {
        if (Tensor* tensor = run.input(i)) {
          tf.set_output(run.context(), i, tensor, run.status());
          tf.delete_tensor(tensor);
        }
      }
    },
};

constexpr Kind kRows = {
    [](Run& run) { return take_flights(run, 0, 1); },
    [](Run& run, const Flights& flights) {
      const int outputs = functions().num_outputs(run.context()) - 1;
      for (int i = 0; i < outputs && run.is_ok(); ++i) {
        give_rows(run, flights[0]->ticket(), i);
      }
      if (run.is_ok()) {
        give_received_splits(run, flights[0]->ticket(), outputs);
      }
    },
};

/// What is left to do once requests have ended.
void end_and_give(Run& run, const Flights& flights, const Kind& kind) {
  end_all(run, flights);
  if (run.is_ok()) {
    kind.give(run, flights);
  }
}

void compute(Run& run, const Kind& kind) {
  // What has been taken before a failure is waited for all the same: its memory goes with it.
  const Flights flights = kind.take(run);
  if (run.is_ok()) {
    end_and_give(run, flights, kind);
  }
}

/// Whether TensorFlow's callback is a std::function of this compiler's library, which can be kept beyond the kernel's
/// call. TensorFlow hands over the address of one that is gone once the call has returned. In the C interface of 2.13
/// to 2.21 it is so; what would lie there else is no pair of functions of its libraries'.
bool can_be_kept(const AsyncDone* callback) {
  struct Layout {
    void* object[2];
    void* manages;
    void* calls;
  };
  static_assert(sizeof(Layout) == sizeof(std::function<void()>));
  static const bool known = [&] {
    const auto* layout = reinterpret_cast<const Layout*>(callback);
    Dl_info manages{};
    Dl_info calls{};
    return dladdr(layout->manages, &manages) != 0 && dladdr(layout->calls, &calls) != 0 &&
           manages.dli_fbase == calls.dli_fbase;
  }();
  return known;
}

/// An operation whose requests are under way, and whose thread has gone.
class Pending : public std::enable_shared_from_this<Pending> {
 public:
  Pending(OpKernelContext* context, const AsyncDone* callback, const Kind& kind, Flights flights)
      : context_(context),
        callback_(*reinterpret_cast<const std::function<void()>*>(callback)),
        kind_(kind),
        flights_(std::move(flights)) {}

  /// Returns at once; the operation ends when its requests have. False: it does not, for lack of memory or threads.
  bool begin() {
    return wait_elsewhere(flights_, [self = shared_from_this()] { self->end(); });
  }

  /// Waits for the requests if they have not ended.
  void end() {
    {
      Run run(context_);
      guarded(run, [this](Run& each) { end_and_give(each, flights_, kind_); });
      run.finish();
    }
    flights_.clear();  // their memory and names are the program's again before it goes on
    functions().run_async_done(reinterpret_cast<AsyncDone*>(&callback_));
  }

 private:
  OpKernelContext* context_;  ///< lives until the callback is run
  std::function<void()> callback_;
  const Kind& kind_;
  Flights flights_;
};

bool all_are_done(const Flights& flights) {
  return std::all_of(flights.begin(), flights.end(),
                     [](const std::shared_ptr<Flight>& each) { return each->is_done(); });
}

/// The operation's body as far as this thread goes. True: a Pending runs the callback.
bool compute_or_leave(Run& run, AsyncDone* callback, const Kind& kind) {
  Flights flights = kind.take(run);
  if (!run.is_ok()) {
    return false;
  }
  if (!all_are_done(flights) && can_be_kept(callback)) {
    wait_for(flights, kPatience);
    if (!all_are_done(flights)) {
      const auto pending = std::make_shared<Pending>(run.context(), callback, kind, std::move(flights));
      if (!pending->begin()) {
        pending->end();
      }
      return true;
    }
  }
  end_and_give(run, flights, kind);
  return false;
}

void compute_async(OpKernelContext* context, AsyncDone* callback, const Kind& kind) {
  bool is_left = false;
  {
    Run run(context);
    guarded(run, [&](Run& each) { is_left = compute_or_leave(each, callback, kind); });
    if (!is_left) {
      run.finish();
    }
  }
  if (!is_left) {
    functions().run_async_done(callback);
  }
}

}  // namespace

void compute_done(Run& run) { compute(run, kFixedShapes); }
void compute_done_rows(Run& run) { compute(run, kRows); }

void compute_done_async(void* /*kernel*/, OpKernelContext* context, AsyncDone* callback) {
  compute_async(context, callback, kFixedShapes);
}
void compute_done_rows_async(void* /*kernel*/, OpKernelContext* context, AsyncDone* callback) {
  compute_async(context, callback, kRows);
}

}  // namespace ronde::tf
