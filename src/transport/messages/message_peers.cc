#include "transport/messages/message_peers.h"

#include <cstring>
#include <string>
#include <utility>

namespace ronde::transport {

namespace {

struct Note {
  std::uint32_t word;
  std::uint32_t value;
};
static_assert(sizeof(Note) == 8);

}  // namespace

MessagePeers::MessagePeers(Mailbox& mailbox, std::function<void()> wake_self)
    : mailbox_(mailbox), wake_self_(std::move(wake_self)), members_(static_cast<std::size_t>(mailbox.size())) {
  for (Member& member : members_) {
    member.quiet.resize(members_.size());
  }
  mailbox_.read_notes([this](int from, std::span<const std::byte> note) { read(from, note); });
}

void MessagePeers::say_departed(Departure how) { tell_all(Word::departed, static_cast<std::uint32_t>(how)); }

void MessagePeers::say_frozen(std::uint32_t epoch, std::uint32_t) {
  own_frozen_.store(epoch, std::memory_order_release);
  wake_self_();  // whoever wakes receives, and tells the others then
}

bool MessagePeers::receive() {
  if (const std::uint32_t epoch = own_frozen_.load(std::memory_order_acquire); epoch != told_frozen_) {
    told_frozen_ = epoch;
    if (announce_) {
      announce_();
    }
    tell_all(Word::frozen, epoch);
  }
  mailbox_.flush();
  return mailbox_.receive();
}

void MessagePeers::say_quiet(const std::vector<int>& lost) {
  for (const int each : lost) {
    if (!is_quiet_about(self(), each)) {
      tell_all(Word::quiet, static_cast<std::uint32_t>(each));
    }
  }
}

void MessagePeers::say_given_up() { tell_all(Word::given_up); }

void MessagePeers::wake(int member) {
  if (member == self()) {
    wake_self_();
  } else {
    tell(member, Word::wake);
  }
}

void MessagePeers::wake_others() {
  for (int member = 0; member < size(); ++member) {
    if (member != self()) {
      tell(member, Word::wake);
    }
  }
}

void MessagePeers::tell(int member, Word word, std::uint32_t value) {
  const Note note{static_cast<std::uint32_t>(word), value};
  std::memcpy(mailbox_.compose(sizeof note).data(), &note, sizeof note);
  mailbox_.send_note(member);
}

void MessagePeers::tell_all(Word word, std::uint32_t value) {
  take(self(), word, value);
  for (int member = 0; member < size(); ++member) {
    if (member != self()) {
      tell(member, word, value);
    }
  }
}

void MessagePeers::read(int from, std::span<const std::byte> bytes) {
  Note note{};
  if (bytes.size() == sizeof note) {
    std::memcpy(&note, bytes.data(), sizeof note);
    if (take(from, static_cast<Word>(note.word), note.value)) {
      return;
    }
  }
  mailbox_.break_off(Status::error(Code::internal, "rank " + std::to_string(from) + " has sent a note of " +
                                                       std::to_string(bytes.size()) + " bytes that says nothing"));
}

bool MessagePeers::take(int from, Word word, std::uint32_t value) {
  Member& member = members_[static_cast<std::size_t>(from)];
  switch (word) {
    case Word::departed:
      if (value > static_cast<std::uint32_t>(Departure::final)) {
        return false;
      }
      member.departure = static_cast<Departure>(value);
      return true;
    case Word::frozen: member.frozen = value; return true;
    case Word::quiet:
      if (value >= members_.size()) {
        return false;
      }
      member.quiet[value] = true;
      return true;
    case Word::given_up:
      member.given_up = true;
      any_given_up_ = any_given_up_ || from != self();
      return true;
    case Word::wake: return true;
  }
  return false;
}

}  // namespace ronde::transport
