#include "transport/ofi/ofi_pipe.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/copy_bytes.h"
#include "store/handshake.h"

namespace ronde::transport {

namespace {

/// The connection's only channel.
constexpr Pipe::Channel kWords = 0;
/// When a fabric gives up a fragment the peer has mostly died, of which its connection tells better.
constexpr Nanoseconds kExplainedWithin = 300 * kMillisecond;

JobKey made_of(const JobKey& key, std::string_view purpose) {
  return store::derive(key, std::as_bytes(std::span(purpose)));
}

std::uint64_t tag_of(const JobKey& key) {
  std::uint64_t word = 0;
  std::memcpy(&word, made_of(key, "tag of fragments").bytes.data(), sizeof word);
  return word & kTagMask;
}

}  // namespace

OfiPipe::OfiPipe(TcpConnection connection, const Peer& peer, Integrity integrity, std::shared_ptr<OfiEndpoint> endpoint)
    : BytePipe(peer.rank, integrity, made_of(connection.sending, "bytes in fragments"),
               made_of(connection.receiving, "bytes in fragments")),
      peer_(peer),
      endpoint_(std::move(endpoint)),
      connection_({std::move(connection.socket), made_of(connection.sending, "words beside fragments"),
                   made_of(connection.receiving, "words beside fragments")},
                  peer.rank, integrity),
      sending_tag_(tag_of(connection.sending)),
      status_(endpoint_->add(*this, tag_of(connection.receiving))),
      window_(endpoint_->room().width),
      arrived_(endpoint_->room().width) {
  free_ = endpoint_->take_send_buffers();
  owned_ = free_.size();
  if (free_.empty()) {
    status_ = Status::error(Code::internal, "more pipes over a fabric than there is room for");
    return;
  }
  word_buffer_ = words_own_ = free_.back();
  free_.pop_back();
}

OfiPipe::~OfiPipe() {
  expect(false);
  endpoint_->forget(*this);
}

Status OfiPipe::status() const {
  if (!status_) {
    return status_;
  }
  if (!endpoint_->status()) {
    return endpoint_->status().with_rank(peer_.rank);
  }
  return BytePipe::status().is_ok() ? connection_.status() : BytePipe::status();
}

// ---- Sending

/// Fills fragments as long as the peer has room for more.
std::size_t OfiPipe::write(Parts parts) {
  const std::size_t most = endpoint_->room().fragment_bytes - FragmentHead::kBytes;
  std::size_t taken = 0;
  std::size_t part = 0;
  std::size_t of_part = 0;
  while (true) {
    while (part < parts.size() && of_part == parts[part].size()) {
      ++part;
      of_part = 0;
    }
    if (part == parts.size() || !can_send() || !composed_.empty() || free_.empty() || !window_.may_send()) {
      break;
    }
    OfiBuffer& buffer = *free_.back();
    free_.pop_back();
    std::size_t bytes = 0;
    for (; part < parts.size() && bytes < most; of_part = 0, ++part) {
      const std::size_t piece = std::min(parts[part].size() - of_part, most - bytes);
      if (piece > 0) {
        copy_bytes(buffer.memory + FragmentHead::kBytes + bytes, parts[part].data() + of_part, piece);
      }
      bytes += piece;
      of_part += piece;
      if (of_part < parts[part].size()) {
        break;
      }
    }
    window_.next().write({buffer.memory, FragmentHead::kBytes});
    taken += bytes;
    composed_.push_back({&buffer, FragmentHead::kBytes + bytes});
    post_composed();
  }
  ring();
  return can_send() ? taken : 0;
}

/// False: try again later.
bool OfiPipe::post(const Composed& fragment) {
  switch (endpoint_->post(*fragment.buffer, *this, peer_.address, sending_tag_, fragment.bytes)) {
    case OfiEndpoint::Posted::sent: ++posted_; return true;
    case OfiEndpoint::Posted::full: return false;
    case OfiEndpoint::Posted::failed: note_sent(*fragment.buffer); return true;
  }
  return true;
}

/// True once nothing waits for the provider.
bool OfiPipe::post_composed() {
  while (!composed_.empty() && post(composed_.front())) {
    composed_.pop_front();
  }
  return composed_.empty();
}

bool OfiPipe::flush() {
  const bool posted = post_composed();
  const bool all = BytePipe::flush() && posted && composed_.empty();
  ring();
  return all;
}

/// Tells the peer how many of its fragments were taken; false if that must wait.
bool OfiPipe::say_taken() {
  if (word_buffer_ == nullptr || !can_send()) {
    return false;
  }
  OfiBuffer& buffer = *std::exchange(word_buffer_, nullptr);
  window_.word().write({buffer.memory, FragmentHead::kBytes});
  if (!post({&buffer, FragmentHead::kBytes})) {
    word_buffer_ = &buffer;
    window_.unsay();
    return false;
  }
  ring();
  return true;
}

void OfiPipe::say(OfiWord word, std::uint64_t count) {
  std::byte bytes[1 + sizeof count];
  bytes[0] = static_cast<std::byte>(word);
  std::memcpy(bytes + 1, &count, sizeof count);
  connection_.send(kWords, bytes);
}

/// Once for all that was sent meanwhile.
void OfiPipe::ring() {
  if (peer_.needs_bells && std::exchange(rung_for_, posted_) != posted_) {
    say(OfiWord::bell, posted_);
  }
  connection_.flush();
}

// ---- Receiving

void OfiPipe::note_fragment(OfiBuffer& buffer, std::span<const std::byte> fragment) {
  const FragmentHead head = FragmentHead::read(fragment);
  Arrived* const place = &arrived_[head.number % window_.width()];
  const bool is_possible = window_.admit(head) && (head.number == 0 || place->buffer == nullptr);
  has_heard_ = has_heard_ || is_possible;
  ++has_come_;
  if (!is_possible || head.number == 0 || is_at_end()) {
    endpoint_->give_back(buffer);
    if (!is_possible && status_.is_ok()) {
      status_ = Status::error(Code::internal, "rank " + std::to_string(peer_.rank) +
                                                  " has sent a fragment that cannot be: number " +
                                                  std::to_string(head.number) + ", expected " +
                                                  std::to_string(window_.due()) + " or one soon after it")
                    .with_rank(peer_.rank);
    }
    return;
  }
  *place = {&buffer, fragment.subspan(FragmentHead::kBytes)};
}

void OfiPipe::note_sent(OfiBuffer& buffer) {
  if (&buffer == words_own_) {
    word_buffer_ = &buffer;
  } else {
    free_.push_back(&buffer);
  }
}

bool OfiPipe::read_more() {
  if (is_at_end() || !status()) {
    return false;
  }
  if (take_fragment()) {
    return true;
  }
  if (window_.owes_word()) {
    say_taken();
  }
  listen();
  mind_end();
  return false;
}

/// As many bytes of the fragment that is due as the assembler has room for.
bool OfiPipe::take_fragment() {
  Arrived& due = arrived_[window_.due() % window_.width()];
  if (due.buffer == nullptr) {
    return false;
  }
  const std::span<std::byte> room = incoming().room();
  const std::size_t piece = std::min(room.size(), due.bytes.size());
  if (piece > 0) {
    copy_bytes(room.data(), due.bytes.data(), piece);
    due.bytes = due.bytes.subspan(piece);
    incoming().note_read(piece);
  }
  if (due.bytes.empty()) {
    endpoint_->give_back(*std::exchange(due.buffer, nullptr));
    window_.note_taken();
    if (window_.owes_word()) {
      say_taken();
    }
  }
  return true;
}

// ---- What the connection tells

void OfiPipe::listen() {
  std::vector<std::byte> word;
  while (connection_.receive(kWords, word)) {
    hear(word);
  }
  expect(was_told_of_ > has_come_ || (!failure_.empty() && !is_at_end()));
}

void OfiPipe::hear(std::span<const std::byte> word) {
  std::uint64_t count = 0;
  if (word.size() != 1 + sizeof count) {
    status_ = Status::error(Code::internal,
                            "rank " + std::to_string(peer_.rank) + " has said beside the fabric what cannot be")
                  .with_rank(peer_.rank);
    return;
  }
  std::memcpy(&count, word.data() + 1, sizeof count);
  switch (static_cast<OfiWord>(word[0])) {
    case OfiWord::bell: was_told_of_ = std::max(was_told_of_, count); break;
    case OfiWord::last: last_ = count; break;
    case OfiWord::taken: was_taken_ = true; break;
  }
}

/// Requires: no fragment that is due has come.
void OfiPipe::mind_end() {
  if (last_ && window_.taken() == *last_) {
    if (!std::exchange(has_said_taken_, true)) {
      say(OfiWord::taken, *last_);
    }
    end();
    return;
  }
  if (connection_.has_ended(kWords)) {
    end_cause_ = connection_.end_cause();
    end();
    return;
  }
  if (!failure_.empty() && RealClock().now() - failed_at_ >= kExplainedWithin) {
    end_cause_ = failure_;
    connection_.break_off();
    end();
  }
}

void OfiPipe::end() {
  note_end();
  stop_sending();
  expect(false);
}

void OfiPipe::note_failure(const std::string& why) {
  if (failure_.empty()) {
    failure_ = "over libfabric's provider " + endpoint_->fabric().provider() + " it cannot be reached any more: " + why;
    failed_at_ = RealClock().now();
    expect(true);
  }
  if (window_.sent() > 0) {
    stop_sending();  // what follows a fragment that is lost is of no use
  }
}

/// While something is to come of which no descriptor tells.
void OfiPipe::expect(bool is_behind) {
  if (std::exchange(is_expecting_, is_behind) != is_behind) {
    endpoint_->need_looks(is_behind);
  }
}

std::string OfiPipe::end_cause() const { return end_cause_; }

// ---- The beginning

bool OfiPipe::greet() {
  has_greeted_ = has_greeted_ || say_taken();
  return has_greeted_;
}

std::optional<std::string> OfiPipe::take_failure() {
  if (failure_.empty()) {
    return std::nullopt;
  }
  has_greeted_ = false;
  expect(false);
  return std::exchange(failure_, {});
}

// ---- The end

bool OfiPipe::finish_sending() {
  listen();
  const bool has_gone = connection_.has_ended(kWords) || !failure_.empty() || !status();
  if (!has_gone && !has_said_last_) {
    if (!flush() || !is_quiet()) {
      return false;
    }
    has_said_last_ = true;
    say(OfiWord::last, window_.sent());
  }
  connection_.flush();
  if (!has_gone && !was_taken_) {
    return false;
  }
  return connection_.finish_sending();
}

}  // namespace ronde::transport
