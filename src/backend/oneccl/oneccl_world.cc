#include "backend/oneccl/oneccl_world.h"

#include <cstring>
#include <optional>
#include <utility>

#include "backend/oneccl/calls_in_turn.h"
#include "base/log.h"
#include "ofi/kept_signals.h"
#include "oneccl/library.h"
#include "reduce/control_word.h"

namespace ronde::backend::oneccl {

namespace {

using ronde::oneccl::Comm;
using ronde::oneccl::Functions;
using ronde::oneccl::OneCclLibrary;
using ronde::oneccl::Op;
using ronde::oneccl::Type;
using ronde::oneccl::UniqueId;

/// How long the end waits for what runs.
constexpr Nanoseconds kEndLimit = 2 * kSecond;

std::optional<Type> type_of(DType type) {
  switch (type) {
    case DType::float32: return Type::float32;
    case DType::float64: return Type::float64;
    case DType::int8: return Type::int8;
    case DType::uint8: return Type::uint8;
    case DType::int32: return Type::int32;
    case DType::uint32: return Type::uint32;
    case DType::int64: return Type::int64;
    case DType::uint64: return Type::uint64;
    default: return std::nullopt;
  }
}

std::optional<Op> op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum: return Op::sum;
    case ReduceOp::product: return Op::product;
    case ReduceOp::min: return Op::min;
    case ReduceOp::max: return Op::max;
    default: return std::nullopt;
  }
}

/// A copy of what is needed of a call, which may be given up while it waits for its turn.
struct Kept {
  OpKind kind;
  const std::byte* from;
  std::byte* to;
  std::size_t count;
  Type type;
  Op op;
  int root;
};

Kept kept(const CollectiveCall& call) {
  const bool has_parts =
      call.kind == OpKind::reducescatter || call.kind == OpKind::allgather || call.kind == OpKind::alltoall;
  return {call.kind,
          call.from,
          call.to,
          has_parts ? static_cast<std::size_t>(call.sent->counts[0]) : call.count,  // each of one rank for another
          *type_of(call.type),
          call.op ? *op_of(*call.op) : Op::sum,
          call.root};
}

int make(const Functions& oneccl, Comm comm, const Kept& call) {
  if (call.count == 0) {
    return 0;
  }
  auto* const from = const_cast<std::byte*>(call.from);  // which oneCCL only reads
  switch (call.kind) {
    case OpKind::allreduce: return oneccl.allreduce(from, call.to, call.count, call.type, call.op, comm, nullptr);
    case OpKind::reduce: return oneccl.reduce(from, call.to, call.count, call.type, call.op, call.root, comm, nullptr);
    case OpKind::broadcast: return oneccl.broadcast(call.to, call.to, call.count, call.type, call.root, comm, nullptr);
    case OpKind::reducescatter:
      return oneccl.reduce_scatter(from, call.to, call.count, call.type, call.op, comm, nullptr);
    case OpKind::allgather: return oneccl.allgather(from, call.to, call.count, call.type, comm, nullptr);
    default: return oneccl.alltoall(from, call.to, call.count, call.type, comm, nullptr);
  }
}

/// Rank 0 makes it. Each rank says by an empty word that it cannot go on, so that nobody waits for it.
Result<UniqueId> shared_id(Result<OneCclLibrary>& library, int rank, const Exchange& exchange) {
  UniqueId id;
  Status own = library.status();
  if (own && rank == 0 && library->functions().unique_id(&id) != 0) {
    own = library->error("onecclGetUniqueId()");
  }
  std::vector<std::byte> word;
  if (own) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(id.bytes.data());
    word.assign(bytes, bytes + (rank == 0 ? sizeof id : 1));
  }
  Result<std::vector<std::vector<std::byte>>> words = exchange(std::move(word));
  RONDE_RETURN_IF_ERROR(own);
  RONDE_RETURN_IF_ERROR(words.status());
  for (std::size_t peer = 0; peer < words->size(); ++peer) {
    if ((*words)[peer].size() != (peer == 0 ? sizeof id : 1)) {
      return Status::error(Code::system_error, "rank " + std::to_string(peer) + " cannot use oneCCL; it says why")
          .with_rank(static_cast<int>(peer));
    }
  }
  std::memcpy(&id, words->front().data(), sizeof id);
  return id;
}

}  // namespace

/// What oneCCL's thread works with: the same for a call that its world has given up.
class Communicator {
 public:
  explicit Communicator(OneCclLibrary library) : library_(std::move(library)) {}
  bool begin(const UniqueId& id, int rank, int size) {
    const ofi::KeptSignals signals;
    const reduce::DefaultArithmetic arithmetic;
    rank_ = rank;
    return is_good("onecclCommInitRank()",
                   library_.functions().init_rank(&comm_, static_cast<std::size_t>(size), id, rank));
  }
  bool make_call(const Kept& call) {
    const reduce::DefaultArithmetic arithmetic;  // the thread began with that of whoever called init
    return is_good("a collective", make(library_.functions(), comm_, call));
  }
  bool end() { return library_.functions().destroy(comm_) == 0; }

 private:
  bool is_good(const std::string& what, int code) {
    if (code != 0) {
      log(LogLevel::error, rank_, "backend oneccl: " + library_.error(what).message());
    }
    return code == 0;
  }

  const OneCclLibrary library_;
  Comm comm_ = nullptr;
  int rank_ = 0;
};

struct OneCclWorld::Begun {
  std::shared_ptr<CallsInTurn::Call> call;
  bool is_noted = false;
};

Result<std::shared_ptr<CollectiveLibrary>> OneCclWorld::join(int rank, int size, const Exchange& exchange,
                                                             Nanoseconds limit) {
  Result<OneCclLibrary> library = OneCclLibrary::open();
  RONDE_ASSIGN_OR_RETURN(const UniqueId id, shared_id(library, rank, exchange));
  RONDE_ASSIGN_OR_RETURN(std::shared_ptr<CallsInTurn> calls, CallsInTurn::start());
  const std::string name = library->name();
  const auto communicator = std::make_shared<Communicator>(std::move(*library));
  const auto begun = calls->add([=] { return communicator->begin(id, rank, size); });
  const CallsInTurn::State state = calls->wait_for(*begun, limit);
  if (state == CallsInTurn::State::succeeded) {
    calls->take_note();
    return std::shared_ptr<CollectiveLibrary>(new OneCclWorld(std::move(calls), communicator, name, rank, size));
  }
  calls->finish(0);
  return state == CallsInTurn::State::failed
             ? Status::error(Code::system_error, "oneCCL does not connect this rank with the others; the log says why")
             : Status::error(Code::timed_out, "Timed out: oneCCL has not connected the ranks in time");
}

OneCclWorld::OneCclWorld(std::shared_ptr<CallsInTurn> calls, std::shared_ptr<Communicator> communicator,
                         std::string name, int rank, int size)
    : calls_(std::move(calls)),
      communicator_(std::move(communicator)),
      name_(std::move(name)),
      rank_(rank),
      size_(size) {}

OneCclWorld::~OneCclWorld() {
  calls_->drop_waiting();
  if (!has_given_up_) {
    calls_->add([communicator = communicator_] { return communicator->end(); });
  }
  calls_->finish(has_given_up_ ? 0 : kEndLimit);
}

int OneCclWorld::news_fd() const { return calls_->fd(); }

bool OneCclWorld::reduces(DType type, ReduceOp op) const { return type_of(type) && op_of(op); }

bool OneCclWorld::has(OpKind kind, bool are_equal) const {
  switch (kind) {
    case OpKind::allreduce:
    case OpKind::reduce:
    case OpKind::broadcast: return true;
    case OpKind::reducescatter:
    case OpKind::allgather:
    case OpKind::alltoall: return are_equal;
    default: return false;
  }
}

bool OneCclWorld::begin(const CollectiveCall& call, Underway* made) {
  if (has_given_up_) {
    return false;
  }
  const auto begun =
      calls_->add([communicator = communicator_, call = kept(call)] { return communicator->make_call(call); });
  begun_.push_back(std::make_unique<Begun>(Begun{begun}));
  *made = begun_.back().get();
  return true;
}

bool OneCclWorld::test(Underway* call) {
  auto* const begun = static_cast<Begun*>(*call);
  const CallsInTurn::State state = calls_->state_of(*begun->call);
  if (state != CallsInTurn::State::waiting && !std::exchange(begun->is_noted, true)) {
    calls_->take_note();
  }
  if (has_given_up_ || state != CallsInTurn::State::succeeded) {
    return false;
  }
  std::erase_if(begun_, [&](const std::unique_ptr<Begun>& each) { return each.get() == begun; });
  *call = nullptr;
  return true;
}

void OneCclWorld::give_up() { has_given_up_ = true; }

}  // namespace ronde::backend::oneccl
