// MpiWorld: MPI as this process has it, and a communicator of all ranks that only Ronde uses. MPI cannot be begun twice
// in a process, so there is one, which all jobs of the process use in turn, and which is never destroyed.
//
// MPI has no descriptor that tells of its progress: who waits must ask again and again. So a timer is readable soon
// after a question that was in vain, and who sleeps until links have news sleeps until then too.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "backend/staged/collective_library.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "mpi/library.h"

namespace ronde::backend::mpi {

using ronde::mpi::Constants;
using ronde::mpi::Functions;
using ronde::mpi::Handle;
using ronde::mpi::MpiLibrary;

class MpiWorld final : public CollectiveLibrary {
 public:
  /// Begins MPI if nobody has; once more does nothing. NOT_IMPLEMENTED if there is none, INVALID_ARGUMENT if the
  /// program has begun it for one thread, or ended it.
  static Status begin();
  /// begin(), and a communicator. The same ranks as the launcher has announced, else INVALID_ARGUMENT: a library of
  /// another MPI than the launcher's takes each process for a job of its own. Waits for all ranks, as MPI does, without
  /// a limit. PEER_LOST if an operation of an earlier job was given up. The caller does not own it.
  static Result<MpiWorld*> join(int rank, int size);
  /// It is begun, with MPI_THREAD_MULTIPLE.
  static bool allows_threads();
  /// Ends MPI if it was begun here, and nothing was given up. At the process's exit, when no job is left.
  static void end_at_exit();

  // ---- As CollectiveLibrary has them. Any thread may begin one and ask for it.

  std::string_view backend() const override { return "mpi"; }
  const std::string& name() const override { return library_.name(); }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int news_fd() const override { return timer_.get(); }
  bool reduces(DType type, ReduceOp op) const override;
  bool has(OpKind, bool) const override { return true; }
  /// False if MPI reports an error, or has ended.
  bool begin(const CollectiveCall& call, Underway* made) override;
  /// Sees to it that the timer ends soon if the call has not.
  bool test(Underway* call) override;
  void give_up() override;

 private:
  explicit MpiWorld(MpiLibrary library) : library_(std::move(library)) {}
  Status begin_mpi();
  Status check(int rank, int size);
  bool is_over() const;
  int begin_now(const CollectiveCall& call, Handle* request) const;
  void wake_in(long nanoseconds) const;

  const MpiLibrary library_;
  UniqueFd timer_;
  std::mutex mutex_;  ///< MPI is asked by one thread at a time, which is all that it need allow
  Handle comm_ = nullptr;
  int rank_ = 0;
  int size_ = 1;
  bool is_armed_ = false;  ///< the timer is set, or has said so
  Nanoseconds armed_at_ = 0;
  bool is_ours_ = false;
  bool allows_threads_ = false;
  bool has_given_up_ = false;
};

}  // namespace ronde::backend::mpi
