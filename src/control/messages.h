// What ranks say to each other: to agree, requests to the coordinator and its answers, the log (docs/agreement.md); and
// what passes between the two ranks of a send and a recv (engine/p2p/point_to_point.h).
//
// The log is totally ordered per group: every member gets the same entries in the same order and reads them at its own
// pace. A request carries the label of its sender: how many ERROR, INSTALL and ADD entries it had read when it was
// sent, so that the coordinator can tell a request that crossed such an entry on the way.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "types/bucket.h"
#include "types/request.h"
#include "types/thresholds.h"

namespace ronde::control {

// ---- To the coordinator

struct RequestMessage {
  std::string name;
  Descriptor descriptor;
  std::uint64_t label = 0;
  Nanoseconds timeout = kNever;
  /// How many log entries of any kind the sender had read. Two requests were pending together on a rank if neither was
  /// sent after it had read the other's answer: only such names are fused.
  std::uint64_t position = 0;
  /// Where in the sender's program it was submitted ("train.py:12"), for errors; empty if unknown.
  std::string call_site = {};
  /// Of an unnamed call: what it is planned under; `name` is then its number. Empty: its name.
  std::string planning_name = {};
  /// Of an unnamed call its number; of a barrier that of the last unnamed call before it. 0: neither.
  std::uint64_t call_number = 0;
  /// How long it has waited when it is sent, since it may have been replayed at first.
  Nanoseconds waited = 0;
};

/// The sender submits nothing any more. Final: it does not take part in what it has submitted either.
struct LeaveMessage {
  bool final = false;
};

/// The sender has left this epoch: it has finished what was decided and touches the buckets' memory no more.
struct EndMessage {
  std::uint32_t epoch = 0;
  /// The most instances that a bucket of the epoch came to.
  std::uint64_t instances = 0;
  /// Why buckets stayed half full, where that was the reason of the break: names that the others of their bucket waited
  /// for in vain. They are not fused again.
  std::vector<std::string> missing = {};
  /// Of the coordinator's rank: the buckets in force of which there was no instance in the epoch, ascending. The same
  /// on every rank, since all have decided alike.
  std::vector<std::uint32_t> unused = {};
  /// Planning names of unnamed calls of which the sender's program makes more at once than there are places.
  std::vector<std::string> crowded = {};
};

/// The sender has no more data and none of its requests is outstanding; it takes part with neutral values until all
/// have said so.
struct JoinMessage {
  std::uint64_t last_call = 0;  ///< the number of the sender's last unnamed call
};

/// The answer to PREPARE: the sender's side of the bucket's memory exists and its line is zero, or cannot be had (then
/// no FREE follows).
struct PreparedMessage {
  std::uint32_t bucket = 0;
  bool refused = false;
};

/// The sender's program made this unnamed call, which was refused on its own rank; it has its error already.
struct RefusedMessage {
  std::string name;
  std::string text;  ///< why
};

/// The sender's program does not want the end of what it has requested under this name.
struct CancelMessage {
  std::string name;
};

/// The next instance of this bucket is full on the sender, in a group whose instances go by the log
/// (SettingsEntry::ordered).
struct FullMessage {
  std::uint32_t epoch = 0;
  std::uint32_t bucket = 0;
  std::uint64_t instance = 0;
  /// Stands for the unnamed calls in it; 0 if there are none.
  std::uint64_t calls = 0;
};

/// The same group: the sender cannot go on in this epoch, and fills no bucket of it any more.
struct FrozenMessage {
  std::uint32_t epoch = 0;
};

/// The sender does not use this bucket any more, which was retired.
struct FreeMessage {
  std::uint32_t bucket = 0;
};

// ---- Log entries

/// The settings that plans are a function of; the first entry of a log. Every member plans with the coordinator's.
struct SettingsEntry {
  std::uint64_t fusion_threshold = 0;  ///< bytes of a fused plan at most; 0: nothing is fused
  std::uint64_t fusion_small = 0;      ///< only tensors up to this many bytes are fused
  ByteLimits limits = {};              ///< by which a bucket's data moves
  /// The backend needs one order of all that the ranks launch: no instance of a bucket begins but by LAUNCH.
  bool ordered = false;
};

/// These names are ready on every member and agree; all execute them, in this order.
struct ExecEntry {
  struct Item {
    std::string name;
    /// For each tensor what Plan::rows says of it; empty for kinds that need none.
    std::vector<std::vector<std::int64_t>> rows = {};
    /// Where its tensor lies in memory that the members reach; empty if one has it elsewhere.
    MemoryPlaces places = {};
    /// While a member has joined: what the others asked for, so that it can take part.
    std::optional<Descriptor> descriptor = {};
    /// Not sent: the member that reads it notes whether a request of its own is part of it.
    bool is_own = false;
  };
  std::vector<Item> items = {};
};

/// This name fails on every member, also on one that has yet to submit it (it then owes the error).
struct ErrorEntry {
  std::string name;
  Code code = Code::mismatch;
  std::int32_t failed_rank = -1;
  std::string text;
  /// Members (indices in the group) that it does not concern, since they have joined or have their own error.
  std::vector<std::int32_t> joined = {};
};

/// The receiver makes its side of this bucket ready: its memory, its line of flags, all zero, and the slots of that
/// line into which peers copy inline payloads. It answers PREPARED. Sent once per bucket.
struct PrepareEntry {
  Bucket bucket;
};

/// Replay begins: these buckets (all of them prepared everywhere) are in force from here on.
struct InstallEntry {
  std::uint32_t epoch = 0;
  std::vector<std::uint32_t> buckets = {};
};

/// These buckets come into force in the running epoch; of who has left it already, nothing but new requests is asked.
struct AddEntry {
  std::uint32_t epoch = 0;
  std::vector<std::uint32_t> buckets = {};
};

/// The next instance of each of these buckets is full on every member; all launch them, in this order among themselves
/// and with what is in EXEC entries.
struct LaunchEntry {
  std::uint32_t epoch = 0;
  std::vector<std::uint32_t> buckets = {};
};

/// The epoch is over for what was not launched before this entry; what was is finished.
struct BreakEntry {
  std::uint32_t epoch = 0;
};

/// These buckets never come into force again: say FREE for their lines and slots once nothing touches them.
struct RetireEntry {
  std::vector<std::uint32_t> buckets = {};
};

/// All members have joined, this one last; none is joined any more.
struct JoinDoneEntry {
  std::int32_t last = 0;  ///< index in the group
  /// What unnamed calls count as barriers and joins before, from here on: more than any member has called.
  std::uint64_t restarts = 0;
};

/// A member has left: what is not in an EXEC before this entry never will be.
struct LeftEntry {
  std::int32_t member = 0;  ///< index in the group
};

/// All members have left; the last entry.
struct AllLeftEntry {};

/// From here on these decide which way an all-reduce takes: what is agreed after this entry, and the buckets prepared
/// after it. What all ranks find in shared memory counts until the first such entry.
struct TableEntry {
  Thresholds thresholds;
};

// ---- Between the two ranks of a send and a recv. A send is known by its sender and a number that the sender gives it.

/// The sender has this for the receiver.
struct OfferMessage {
  std::uint64_t id = 0;
  std::int32_t group = 0;
  std::int32_t tag = 0;
  DType dtype = DType::float32;
  Shape shape = {};
  std::string name = {};     ///< of the sender's request, for messages
  std::string payload = {};  ///< all of it if it is short, else nothing
};

/// The receiver has memory for it: send the pieces.
struct AcceptMessage {
  std::uint64_t id = 0;
};

/// The next bytes: in the payload, or `bytes` of them at `place` in the sender's memory until TAKEN.
struct PieceMessage {
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
  std::int64_t place = kNoOffset;
  std::string payload = {};
};

/// The receiver has read so many bytes in all; the sender may use the memory of those again.
struct TakenMessage {
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
};

/// The send has failed on the side that says so, and fails on the other with this.
struct GiveUpMessage {
  std::uint64_t id = 0;
  bool by_sender = false;
  Code code = Code::mismatch;
  std::string text = {};
  std::int32_t rank = -1;  ///< whose doing it is; -1: nobody's alone
};

using Message =
    std::variant<RequestMessage, LeaveMessage, SettingsEntry, ExecEntry, ErrorEntry, LeftEntry, AllLeftEntry,
                 EndMessage, JoinMessage, PreparedMessage, FreeMessage, PrepareEntry, InstallEntry, AddEntry,
                 RetireEntry, JoinDoneEntry, TableEntry, OfferMessage, AcceptMessage, PieceMessage, TakenMessage,
                 GiveUpMessage, RefusedMessage, CancelMessage, FullMessage, FrozenMessage, LaunchEntry, BreakEntry>;

struct Envelope {
  std::int32_t group = 0;
  Message message;
};

std::vector<std::byte> encode(const Envelope& envelope);
/// INTERNAL if the bytes are no message: the sender is authenticated, so this is a bug or a broken memory.
Result<Envelope> decode(std::span<const std::byte> bytes);

}  // namespace ronde::control
