// What ranks say to each other to agree: requests to the coordinator, and its answers, the log (docs/agreement.md).
//
// The log is totally ordered per group: every member gets the same entries in the same order and reads them at its own
// pace. A request carries the label of its sender: how many ERROR entries (later INSTALL and ADD too) it had read when
// it was sent, so that the coordinator can tell a request that crossed such an entry on the way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "types/request.h"

namespace ronde::control {

// ---- To the coordinator

struct RequestMessage {
  std::string name;
  Descriptor descriptor;
  std::uint64_t label = 0;
  Nanoseconds timeout = kNever;
};

/// The sender submits nothing any more. Final: it does not take part in what it has submitted either.
struct LeaveMessage {
  bool final = false;
};

// ---- Log entries

/// The settings that plans are a function of; the first entry of a log. Every member plans with the coordinator's.
struct SettingsEntry {
  std::uint64_t fusion_threshold = 0;  ///< bytes of a fused plan at most; 0: nothing is fused
  std::uint64_t fusion_small = 0;      ///< only tensors up to this many bytes are fused
};

/// These names are ready on every member and agree; all execute them, in this order.
struct ExecEntry {
  struct Item {
    std::string name;
    /// allgather: for each tensor the first extents of all members; else empty.
    std::vector<std::vector<std::int64_t>> rows;
  };
  std::vector<Item> items;
};

/// This name fails on every member, also on one that has yet to submit it (it then owes the error).
struct ErrorEntry {
  std::string name;
  Code code = Code::mismatch;
  std::int32_t failed_rank = -1;
  std::string text;
};

/// A member has left: what is not in an EXEC before this entry never will be.
struct LeftEntry {
  std::int32_t member = 0;  ///< index in the group
};

/// All members have left; the last entry.
struct AllLeftEntry {};

using Message = std::variant<RequestMessage, LeaveMessage, SettingsEntry, ExecEntry, ErrorEntry, LeftEntry,
                             AllLeftEntry>;

struct Envelope {
  std::int32_t group = 0;
  Message message;
};

std::vector<std::byte> encode(const Envelope& envelope);
/// INTERNAL if the bytes are no message: the sender is authenticated, so this is a bug or a broken memory.
Result<Envelope> decode(std::span<const std::byte> bytes);

}  // namespace ronde::control
