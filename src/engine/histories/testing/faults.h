// What is broken on purpose, one thing at a time, to show that the histories see it (faults_test.cc): what links do
// with messages, and what a backend says and does.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "transport/messages/pipe.h"

namespace ronde::engine::histories {

using transport::Pipe;

/// Of the pipe between two ranks.
inline constexpr Pipe::Channel kData = 0;
inline constexpr Pipe::Channel kAgreement = 1;

enum class Fault : std::uint8_t {
  none,
  // Of links.
  frozen_note_lost,
  quiet_notes_lost,
  answer_lost,
  stale_payload,
  one_rank_left_out,
  note_overtakes_data,
  lent_read_too_late,
  // Of backends.
  plan_done_too_early,
  instance_done_too_early,
  calls_not_compared,
  decided_alone,
  not_announced,
  kCount,
};

/// The head of a message of collectives, as transport/messages/mailbox.cc has it.
struct MessageHead {
  std::uint32_t collective = 0;
  std::uint32_t stage = 0;
  std::uint64_t instance = 0;
  std::uint64_t mark = 0;
  std::uint64_t payload_bytes = 0;
};
inline constexpr std::uint32_t kNotes = ~std::uint32_t{0};
inline constexpr std::uint32_t kPublished = ~std::uint32_t{0};  ///< in place of a stage, as message_bucket.cc has it
/// What a note says, as transport/messages/message_peers.h has it.
enum class NoteWord : std::uint32_t { departed, frozen, quiet, given_up, wake, kCount };

inline MessageHead head_of(const std::vector<std::byte>& bytes) {
  MessageHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  return head;
}
inline std::optional<NoteWord> note_in(const std::vector<std::byte>& bytes) {
  if (head_of(bytes).collective != kNotes) {
    return std::nullopt;
  }
  std::uint32_t word = 0;
  std::memcpy(&word, bytes.data() + sizeof(MessageHead), sizeof word);
  return static_cast<NoteWord>(word);
}
/// Of agreement: the index of its type in control::Message.
inline std::size_t kind_of(const std::vector<std::byte>& bytes) { return std::to_integer<std::size_t>(bytes.front()); }

/// What links do wrongly; once, after some that went well, where once is enough.
class FaultInLinks {
 public:
  /// `spared`: so many go well before the one that is lost.
  FaultInLinks(Fault fault, int spared) : fault_(fault), spared_(spared) {}

  bool reads_lent_too_late() const { return fault_ == Fault::lent_read_too_late; }

  bool loses(Pipe::Channel channel, const std::vector<std::byte>& bytes) {
    switch (fault_) {
      case Fault::frozen_note_lost: return is_note(channel, bytes, NoteWord::frozen) && is_due();
      case Fault::quiet_notes_lost: return is_note(channel, bytes, NoteWord::quiet);
      case Fault::answer_lost: return channel == kAgreement && kind_of(bytes) == kExecEntry && is_due();
      default: return false;
    }
  }
  bool lets_overtake(Pipe::Channel channel, const std::vector<std::byte>& bytes) const {
    return fault_ == Fault::note_overtakes_data && is_note(channel, bytes, NoteWord::frozen);
  }
  /// `last`: the payload that the wire has had before.
  void change(Pipe::Channel channel, std::vector<std::byte>& bytes, std::vector<std::byte>& last) {
    if (channel != kData || note_in(bytes) || bytes.size() == sizeof(MessageHead)) {
      return;
    }
    std::byte* const payload = bytes.data() + sizeof(MessageHead);
    const std::size_t size = bytes.size() - sizeof(MessageHead);
    if (fault_ == Fault::one_rank_left_out && is_due()) {
      std::fill_n(payload, size, std::byte{0});
    } else if (fault_ == Fault::stale_payload) {
      std::vector<std::byte> fresh(payload, payload + size);
      if (last.size() == size && is_due()) {
        std::copy(last.begin(), last.end(), payload);
      }
      last = std::move(fresh);
    }
  }

 private:
  static constexpr std::size_t kExecEntry = 3;

  static bool is_note(Pipe::Channel channel, const std::vector<std::byte>& bytes, NoteWord word) {
    return channel == kData && note_in(bytes) == word;
  }
  bool is_due() { return spared_-- == 0; }

  const Fault fault_;
  int spared_;
};

}  // namespace ronde::engine::histories
