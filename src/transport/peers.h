// Peers: what a member of a group is told of the life of the other members, and what it tells them of its own. An
// engine asks nothing else about who lives, who has left, who has broken the replay and who has given up; how the words
// travel is the implementation's affair (shared memory: host_peers.h; messages: message_peers.h).
//
// Giving up. A member that has ended requests with an error has given its callers their memory back, and they may have
// stored something else there: what is computed from it since is worth nothing, and a member that was stopped in the
// middle, by suspend or a debugger, goes on as if nothing had happened. So a member looks after its last read of what
// others own, and before it tells anybody of a success; and one that gives up stores its word first and tells its
// callers then, with a fence between. Whoever has read what a caller stored after that therefore sees the word; one
// that has seen none has read nothing wrong, and if another gives up after that look it is too late to do harm. It
// looks as well when what it has published does not move: that needs every member.
//
// Used under the progress lock, but for say_frozen(). Members go by their index in the group. Whoever says something
// has done before what the word promises, and others who read the word see all that was stored before it.
#pragma once

#include <cstdint>
#include <vector>

namespace ronde::transport {

/// How far a member is in leaving its group.
enum class Departure : std::uint8_t {
  none,
  in_order,  ///< it has left as all agreed, or is exiting in order: its death from now on is no failure
  final,     ///< it has said its last word: what has not come from it by now never will
};

class Peers {
 public:
  virtual ~Peers() = default;
  virtual int self() const = 0;
  virtual int size() const = 0;

  // ---- What this member says. Nobody is woken, except by what says so.

  virtual void say_departed(Departure how) = 0;
  /// It publishes no bucket of this epoch any more. Wakes all, itself too. `reason` is for who looks on, where there is
  /// room for it. Any thread, one at a time.
  virtual void say_frozen(std::uint32_t epoch, std::uint32_t reason) = 0;
  /// It touches no memory of other members any more, because these are lost. A set that only grows.
  virtual void say_quiet(const std::vector<int>& lost) = 0;
  /// It has ended requests with an error while others may still have been at work on them, touches no memory of other
  /// members any more, and tells its callers next: a fence lies behind the word.
  virtual void say_given_up() = 0;
  /// Wakes who sleeps in the member, if anyone does. Never blocks.
  virtual void wake(int member) = 0;
  virtual void wake_others() = 0;

  /// Takes in what members have said since, and sends what is still to be sent; true if anything was taken in. Nothing
  /// to do where words lie in common memory.
  virtual bool receive() { return false; }

  // ---- What members have said, this one included.

  virtual Departure departure(int member) const = 0;
  /// The last epoch that it has left; 0: none.
  virtual std::uint32_t frozen_in(int member) const = 0;
  /// It is quiet because of `lost`.
  virtual bool is_quiet_about(int member, int lost) const = 0;
  virtual bool has_given_up(int member) const = 0;
  /// Any but this one has. Cheap: it is asked after each collective.
  virtual bool has_any_given_up() const = 0;
};

}  // namespace ronde::transport
