// What a run of histories has been through: without it, that none of them failed says little.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"
#include "control/messages.h"
#include "engine/histories/testing/faults.h"

namespace ronde::engine::histories {

/// In the order of control::Message.
inline constexpr std::array kMessageNames = {
    "REQUEST", "LEAVE",   "SETTINGS", "EXEC",   "ERROR",  "LEFT",      "ALL_LEFT", "END",   "JOIN",   "PREPARED",
    "FREE",    "PREPARE", "INSTALL",  "ADD",    "RETIRE", "JOIN_DONE", "TABLE",    "OFFER", "ACCEPT", "PIECE",
    "TAKEN",   "GIVE_UP", "REFUSED",  "CANCEL", "FULL",   "FROZEN",    "LAUNCH",   "BREAK"};
static_assert(kMessageNames.size() == std::variant_size_v<control::Message>);
inline constexpr std::array kNoteNames = {"departed", "frozen", "quiet", "given up", "wake"};
static_assert(kNoteNames.size() == static_cast<std::size_t>(NoteWord::kCount));

/// What a message is, for those who read the events of a history.
inline std::string message_text(Pipe::Channel channel, const std::vector<std::byte>& bytes) {
  if (channel == kAgreement) {
    return kMessageNames[kind_of(bytes)];
  }
  if (const std::optional<NoteWord> word = note_in(bytes)) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + sizeof(MessageHead) + sizeof value, sizeof value);
    return std::string(kNoteNames[static_cast<std::size_t>(*word)]) + "(" + std::to_string(value) + ")";
  }
  const MessageHead head = head_of(bytes);
  const std::string stage = head.stage == kPublished ? "published" : "stage " + std::to_string(head.stage);
  return (head.collective == 0 ? "plan "
                               : "bucket " + std::to_string(head.collective - 1) + " epoch " +
                                     std::to_string(head.instance >> 40) + " instance ") +
         std::to_string(head.instance & ((std::uint64_t{1} << 40) - 1)) + " " + stage;
}

/// Sends and recvs are beside agreement; groups whose backend needs one order have histories in agreement only.
inline constexpr std::string_view kNotPartOfHistories = "OFFER ACCEPT PIECE TAKEN GIVE_UP FULL FROZEN LAUNCH BREAK";

enum class Seen : std::size_t {
  histories,
  moves,
  instances,
  plans,
  fused_tensors,
  installs,
  breaks,
  voided,
  joins,
  clock_jumps,
  deadline_jumps,
  idle_jumps,
  cancels,
  tables,
  kills_while_negotiating,
  kills_while_replaying,
  kills_of_the_coordinator,
  second_kills,
  successes,
  successes_after_a_kill,
  callbacks,
  later_stages_of_plans,
  later_stages_of_buckets,
  told_published,
  ranks_that_left_at_once,
  full_links,
  kCount,
};
inline constexpr std::array kSeenNames = {"histories",
                                          "moves",
                                          "instances",
                                          "plans",
                                          "fused tensors",
                                          "installs",
                                          "breaks",
                                          "void instances",
                                          "joins",
                                          "clock jumps",
                                          "deadlines",
                                          "idle until a timer",
                                          "cancellations",
                                          "other tables",
                                          "deaths in negotiation",
                                          "deaths in replay",
                                          "deaths of the coordinator",
                                          "second deaths",
                                          "successes",
                                          "successes after a death",
                                          "callbacks",
                                          "later stages of plans",
                                          "later stages of buckets",
                                          "published told apart",
                                          "ranks that left at once",
                                          "full links"};
static_assert(kSeenNames.size() == static_cast<std::size_t>(Seen::kCount));

class Coverage {
 public:
  void count(Seen what, std::uint64_t times = 1) { seen_[static_cast<std::size_t>(what)] += times; }
  void count_sent(Pipe::Channel channel, const std::vector<std::byte>& bytes) {
    if (channel == kAgreement) {
      ++messages_[kind_of(bytes)];
    } else if (const std::optional<NoteWord> word = note_in(bytes)) {
      ++notes_[static_cast<std::size_t>(*word)];
    } else {
      const MessageHead head = head_of(bytes);
      if (head.stage == kPublished) {
        count(Seen::told_published);
      } else if (head.stage > 0) {
        count(head.collective == 0 ? Seen::later_stages_of_plans : Seen::later_stages_of_buckets);
      }
    }
  }
  void count_end(Code code) { ++ends_[static_cast<std::size_t>(code)]; }

  /// What should have been seen and was not; empty if all is well.
  std::string complaints() const {
    std::string text;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      text += seen_[i] == 0 ? std::string(kSeenNames[i]) + ": never\n" : "";
    }
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      const bool is_part = kNotPartOfHistories.find(kMessageNames[i]) == std::string_view::npos;
      text += is_part && messages_[i] == 0 ? std::string(kMessageNames[i]) + ": never sent\n" : "";
    }
    for (std::size_t i = 0; i < notes_.size(); ++i) {
      text += notes_[i] == 0 ? "a note that says " + std::string(kNoteNames[i]) + ": never sent\n" : "";
    }
    for (const Code code : {Code::mismatch, Code::peer_lost, Code::peer_left, Code::timed_out, Code::cancelled}) {
      text += ends_[static_cast<std::size_t>(code)] == 0 ? std::string(code_name(code)) + ": never\n" : "";
    }
    return text;
  }
  std::string table() const {
    std::string text;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      text += std::string(kSeenNames[i]) + " " + std::to_string(seen_[i]) + "\n";
    }
    for (std::size_t i = 0; i < messages_.size(); ++i) {
      text += messages_[i] == 0 ? "" : std::string(kMessageNames[i]) + " " + std::to_string(messages_[i]) + "\n";
    }
    for (std::size_t i = 0; i < notes_.size(); ++i) {
      text += "note: " + std::string(kNoteNames[i]) + " " + std::to_string(notes_[i]) + "\n";
    }
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      text += ends_[i] == 0
                  ? ""
                  : "end: " + std::string(code_name(static_cast<Code>(i))) + " " + std::to_string(ends_[i]) + "\n";
    }
    return text;
  }

 private:
  std::array<std::uint64_t, static_cast<std::size_t>(Seen::kCount)> seen_{};
  std::array<std::uint64_t, kMessageNames.size()> messages_{};
  std::array<std::uint64_t, kNoteNames.size()> notes_{};
  std::array<std::uint64_t, static_cast<std::size_t>(Code::internal) + 1> ends_{};
};

}  // namespace ronde::engine::histories
