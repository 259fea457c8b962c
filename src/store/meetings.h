// The meetings of a store's server: who waits for whom. A pure state machine of (calls, time); sockets are elsewhere.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "store/store.h"

namespace ronde::store {

using ClientId = std::uint64_t;

/// A meeting to which every rank has come. Whoever holds it keeps the values' descriptors open.
struct Complete {
  std::vector<Value> values;      ///< by rank
  std::vector<ClientId> members;  ///< by rank
};

struct Expired {
  ClientId client = 0;
  Status status;  ///< TIMED_OUT, naming who has not come
};

/// One thread at a time.
class Meetings {
 public:
  /// `client` gives the value of `rank` and waits until now + limit. Gives the meeting if it was the last; null if it
  /// waits; INVALID_ARGUMENT if the rank is taken by a client that still waits, or the ranks disagree on the size.
  /// Requires: 0 <= rank < size, and the client waits nowhere.
  Result<std::shared_ptr<const Complete>> join(ClientId client, const std::string& scope, int rank, int size,
                                               Value value, Nanoseconds limit, Nanoseconds now);
  /// The client is gone: its value is withdrawn, its rank free again.
  void leave(ClientId client);
  /// Withdraws and returns all who have waited long enough.
  std::vector<Expired> expire(Nanoseconds now);
  /// When expire() has work next; kNever if nobody waits.
  Nanoseconds next_deadline() const;
  /// The client that waits as `rank` in this scope, 0 if none.
  ClientId holder(const std::string& scope, int rank) const;
  std::size_t open_count() const { return scopes_.size(); }

 private:
  struct Member {
    /// gave_up: it came and its time ran out. The others are not told that it never came: ranks that start together
    /// time out together, and each should name the one that is really absent.
    enum class State { absent, waiting, gave_up } state = State::absent;
    ClientId client = 0;
    Value value;
    Nanoseconds limit = 0;
    Nanoseconds deadline = kNever;
  };
  struct Scope {
    std::vector<Member> members;
    int waiting = 0;
  };
  struct Place {
    std::string scope;
    int rank;
  };

  void withdraw(ClientId client, Member::State state);
  static std::vector<bool> come(const Scope& scope);

  std::map<std::string, Scope> scopes_;
  std::map<ClientId, Place> places_;  ///< where each waiting client waits
  std::set<std::string> met_;         ///< where all have met, for the text of who comes after that
};

}  // namespace ronde::store
