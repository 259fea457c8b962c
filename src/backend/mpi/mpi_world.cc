#include "backend/mpi/mpi_world.h"

#include <sys/timerfd.h>

#include <optional>
#include <string>
#include <utility>

#include "reduce/control_word.h"

namespace ronde::backend::mpi {

namespace {

/// A look asks MPI for so long: much of MPI moves only while it is asked, and to set a timer costs microseconds.
constexpr Nanoseconds kPatience = 20'000;
/// Of who was woken by the timer, since nobody waits: the cores are the program's.
constexpr Nanoseconds kPatienceOfSleeper = 5'000;
/// Questions between two looks at the clock.
constexpr int kQuestions = 8;
/// How long who sleeps leaves MPI alone.
constexpr long kRest = 50'000;  // nanoseconds

std::optional<Handle> type_of(DType type, const Constants& constants) {
  switch (type) {
    case DType::float32: return constants.float32;
    case DType::float64: return constants.float64;
    case DType::int8: return constants.int8;
    case DType::uint8: return constants.uint8;
    case DType::int16: return constants.int16;
    case DType::uint16: return constants.uint16;
    case DType::int32: return constants.int32;
    case DType::uint32: return constants.uint32;
    case DType::int64: return constants.int64;
    case DType::uint64: return constants.uint64;
    default: return std::nullopt;
  }
}

std::optional<Handle> op_of(ReduceOp op, const Constants& constants) {
  switch (op) {
    case ReduceOp::sum: return constants.sum;
    case ReduceOp::product: return constants.product;
    case ReduceOp::min: return constants.min;
    case ReduceOp::max: return constants.max;
    case ReduceOp::bit_and: return constants.bit_and;
    case ReduceOp::bit_or: return constants.bit_or;
    case ReduceOp::bit_xor: return constants.bit_xor;
    default: return std::nullopt;
  }
}

MpiWorld* the_world = nullptr;  ///< guarded by world_mutex
std::mutex world_mutex;

}  // namespace

Status MpiWorld::begin() {
  const std::lock_guard lock(world_mutex);
  if (the_world == nullptr) {
    RONDE_ASSIGN_OR_RETURN(MpiLibrary library, MpiLibrary::open());
    auto world = std::unique_ptr<MpiWorld>(new MpiWorld(std::move(library)));
    RONDE_RETURN_IF_ERROR(world->begin_mpi());
    the_world = world.release();
  }
  return {};
}

Result<MpiWorld*> MpiWorld::join(int rank, int size) {
  RONDE_RETURN_IF_ERROR(begin());
  const std::lock_guard lock(world_mutex);
  RONDE_RETURN_IF_ERROR(the_world->check(rank, size));
  if (the_world->has_given_up_) {
    return Status::error(
        Code::peer_lost,
        "an operation of an earlier job of this process was given up, and MPI cannot take it back: start "
        "the processes again");
  }
  return the_world;
}

Status MpiWorld::begin_mpi() {
  const reduce::DefaultArithmetic arithmetic;  // MPI may start threads, which begin with this one's
  const Functions& mpi = library_.functions();
  int flag = 0;
  int provided = 0;
  mpi.finalized(&flag);
  if (flag != 0) {
    return Status::error(Code::invalid_argument,
                         "MPI_Finalize() was called in this process: call Ronde's init before it");
  }
  mpi.initialized(&flag);
  if (flag != 0) {
    mpi.query_thread(&provided);
  } else if (mpi.init_thread(nullptr, nullptr, library_.constants().thread_multiple, &provided) == 0) {
    is_ours_ = true;
  } else {
    return Status::error(Code::system_error, "MPI_Init_thread() fails in " + library_.name());
  }
  if (provided < library_.constants().thread_serialized) {
    return Status::error(Code::invalid_argument,
                         "the program has begun MPI for one thread, and Ronde's thread calls it too: begin it with "
                         "MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or call Ronde's init first");
  }
  allows_threads_ = provided >= library_.constants().thread_multiple;
  timer_ = UniqueFd(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_.is_open()) {
    return Status::error(Code::system_error, "no timer can be made by which MPI is asked again");
  }
  mpi.comm_size(library_.constants().world, &size_);
  mpi.comm_rank(library_.constants().world, &rank_);
  return {};
}

Status MpiWorld::check(int rank, int size) {
  if (rank_ != rank || size_ != size) {
    return Status::error(
        Code::invalid_argument,
        library_.name() + " says that this process is rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
            ", and its launcher said rank " + std::to_string(rank) + " of " + std::to_string(size) +
            ": start the program with the mpirun of this MPI, or set RONDE_MPI_LIBRARY to the libmpi.so of "
            "the launcher's");
  }
  if (comm_ == nullptr) {
    const Functions& mpi = library_.functions();
    if (mpi.comm_dup(library_.constants().world, &comm_) != 0) {
      return Status::error(Code::system_error, "MPI_Comm_dup() fails in " + library_.name());
    }
    mpi.comm_set_errhandler(comm_, library_.constants().errors_return);
  }
  return {};
}

bool MpiWorld::is_over() const {
  int flag = 0;
  library_.functions().finalized(&flag);
  return flag != 0;
}

void MpiWorld::wake_in(long nanoseconds) const {
  const itimerspec when{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = nanoseconds}};
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

bool MpiWorld::reduces(DType type, ReduceOp op) const {
  return type_of(type, library_.constants()) && op_of(op, library_.constants());
}

/// MPI reduces in the thread that asks it, which may be any of the program's.
bool MpiWorld::begin(const CollectiveCall& call, Underway* made) {
  const std::lock_guard lock(mutex_);
  const reduce::DefaultArithmetic arithmetic;
  return !is_over() && begin_now(call, made) == 0;
}

int MpiWorld::begin_now(const CollectiveCall& call, Handle* request) const {
  const Functions& mpi = library_.functions();
  const Constants& constants = library_.constants();
  const Handle type = call.op ? *type_of(call.type, constants) : constants.byte;
  const Handle op = call.op ? *op_of(*call.op, constants) : nullptr;
  const auto count = static_cast<int>(call.count);
  const std::byte* const from = call.from;
  std::byte* const to = call.to;
  const int root = call.root;
  switch (call.kind) {
    case OpKind::allreduce: return mpi.iallreduce(from, to, count, type, op, comm_, request);
    case OpKind::broadcast: return mpi.ibcast(to, count, type, root, comm_, request);
    case OpKind::scan: return mpi.iscan(from, to, count, type, op, comm_, request);
    case OpKind::exscan: return mpi.iexscan(from, to, count, type, op, comm_, request);
    case OpKind::reduce: return mpi.ireduce(from, to, count, type, op, root, comm_, request);
    case OpKind::reducescatter:
      return mpi.ireduce_scatter(from, to, call.sent->counts.data(), type, op, comm_, request);
    case OpKind::allgather:
      return mpi.iallgatherv(from, call.sent->counts[0], type, to, call.received->counts.data(),
                             call.received->places.data(), type, comm_, request);
    case OpKind::gather:
      return mpi.igatherv(from, count, type, to, call.received->counts.data(), call.received->places.data(), type, root,
                          comm_, request);
    case OpKind::scatter:
      return mpi.iscatterv(from, call.sent->counts.data(), call.sent->places.data(), type, to,
                           static_cast<int>(call.received->bytes), type, root, comm_, request);
    case OpKind::alltoall:
      return mpi.ialltoallv(from, call.sent->counts.data(), call.sent->places.data(), type, to,
                            call.received->counts.data(), call.received->places.data(), type, comm_, request);
    default: return mpi.ibarrier(comm_, request);
  }
}

bool MpiWorld::test(Underway* request) {
  const std::lock_guard lock(mutex_);
  const reduce::DefaultArithmetic arithmetic;
  int flag = 0;
  const RealClock clock;
  Nanoseconds now = clock.now();
  if (!has_given_up_ && !is_over()) {
    const bool has_slept = is_armed_ && now - armed_at_ >= kRest;
    const Nanoseconds until = now + (has_slept ? kPatienceOfSleeper : kPatience);
    for (; flag == 0 && now < until; now = clock.now()) {
      for (int i = 0; i < kQuestions && flag == 0; ++i) {
        library_.functions().test(request, &flag, library_.constants().ignored_status);
      }
    }
  }
  if (flag == 0 && (!is_armed_ || now - armed_at_ > kRest / 2)) {
    wake_in(kRest);  // who spins asks more often than a timer can be set
    armed_at_ = now;
    is_armed_ = true;
  } else if (flag != 0 && is_armed_) {
    wake_in(0);  // disarms it, and takes back what it has said
    is_armed_ = false;
  }
  return flag != 0;
}

void MpiWorld::give_up() {
  const std::lock_guard lock(mutex_);
  has_given_up_ = true;
  wake_in(0);
}

bool MpiWorld::allows_threads() {
  const std::lock_guard lock(world_mutex);
  return the_world != nullptr && the_world->allows_threads_;
}

void MpiWorld::end_at_exit() {
  const std::lock_guard lock(world_mutex);
  if (the_world != nullptr && the_world->is_ours_ && !the_world->has_given_up_ && !the_world->is_over()) {
    the_world->library_.functions().finalize();
  }
}

}  // namespace ronde::backend::mpi
