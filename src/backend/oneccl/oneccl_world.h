// OneCclWorld: a communicator of oneCCL, and the thread that waits in it. oneCCL's functions return when a collective
// has ended, so they are called by a thread of their own, in the order in which calls were begun; a descriptor is
// readable when one has ended.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/staged/collective_library.h"
#include "base/clock.h"
#include "base/status.h"

namespace ronde::backend::oneccl {

class CallsInTurn;
class Communicator;

/// Gives each rank what all pass, by rank. Collective, with a limit of its own.
using Exchange = std::function<Result<std::vector<std::vector<std::byte>>>(std::vector<std::byte> of_this_rank)>;

class OneCclWorld final : public CollectiveLibrary {
 public:
  /// Waits for all ranks, up to `limit`; TIMED_OUT then. NOT_IMPLEMENTED or INVALID_ARGUMENT as OneCclLibrary::open(),
  /// on the other ranks SYSTEM_ERROR, naming the one that has none.
  static Result<std::shared_ptr<CollectiveLibrary>> join(int rank, int size, const Exchange& exchange,
                                                         Nanoseconds limit);
  /// Waits for nothing but the end of what runs, and two seconds at most: then the thread is left in oneCCL.
  ~OneCclWorld() override;
  OneCclWorld(const OneCclWorld&) = delete;
  OneCclWorld& operator=(const OneCclWorld&) = delete;

  std::string_view backend() const override { return "oneccl"; }
  const std::string& name() const override { return name_; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int news_fd() const override;
  bool reduces(DType type, ReduceOp op) const override;
  bool has(OpKind kind, bool are_equal) const override;
  bool begin(const CollectiveCall& call, Underway* made) override;
  /// Never true of a call that oneCCL has refused: its group's limit tells.
  bool test(Underway* call) override;
  void give_up() override;

 private:
  struct Begun;
  OneCclWorld(std::shared_ptr<CallsInTurn> calls, std::shared_ptr<Communicator> communicator, std::string name,
              int rank, int size);

  const std::shared_ptr<CallsInTurn> calls_;
  const std::shared_ptr<Communicator> communicator_;  ///< the thread's, too
  const std::string name_;
  const int rank_;
  const int size_;
  std::vector<std::unique_ptr<Begun>> begun_;  ///< and not seen to end
  bool has_given_up_ = false;
};

}  // namespace ronde::backend::oneccl
