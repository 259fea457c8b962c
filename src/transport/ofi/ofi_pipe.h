// OfiPipe: a pipe whose bytes go over a fabric in fragments, and whose life is told by a TCP connection.
//
// The connection, whose ends have proved the job's key to each other, stays open beside the fabric: it tells of the
// peer's end and of a vanished host as for any pipe over TCP, and carries a few words (OfiWord): how many fragments
// there were in all where the pipe ends in order, and, to a peer that no descriptor of its provider wakes, that
// fragments were sent. Tags and keys are made of the connection's keys, which never travel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/ofi/endpoint.h"
#include "transport/ofi/fragment_window.h"
#include "transport/tcp/byte_pipe.h"
#include "transport/tcp/stream.h"
#include "transport/tcp/tcp_connection.h"

namespace ronde::transport {

/// What is said over the connection: a u8 and a u64 in one message.
enum class OfiWord : std::uint8_t {
  bell = 1,   ///< so much was sent over the fabric, fragments and words without bytes
  last = 2,   ///< so many fragments were sent, and none follows
  taken = 3,  ///< all of them were taken
};

/// Used under one lock, that of its endpoint. Never blocks.
class OfiPipe final : public BytePipe, private OfiPeer {
 public:
  struct Peer {
    int rank = 0;
    fi_addr_t address = FI_ADDR_UNSPEC;
    bool needs_bells = false;  ///< no descriptor of its provider wakes it
  };
  /// Of which status() may say that it cannot be.
  OfiPipe(TcpConnection connection, const Peer& peer, Integrity integrity, std::shared_ptr<OfiEndpoint> endpoint);
  ~OfiPipe() override;

  // ---- Until both ends have heard each other.

  /// Sends the first word, once; false if the provider does not take it yet.
  bool greet();
  bool has_heard() const { return has_heard_; }
  /// Why the fabric has given up what was sent, if it has; then greet() may be tried again.
  std::optional<std::string> take_failure();
  /// All words that were posted have gone.
  bool is_quiet() const { return free_.size() + (word_buffer_ != nullptr ? 1 : 0) == owned_; }

  /// Fragments, since the beginning.
  std::uint64_t sent() const { return window_.sent(); }

  // ---- As Pipe has them.

  bool flush() override;
  Status status() const override;
  int descriptor() const override { return connection_.descriptor(); }
  std::uint32_t events() const override { return connection_.events(); }
  void note_events(std::uint32_t events) override { connection_.note_events(events); }
  bool watch(Nanoseconds now, const HostTimeout& timeout) override { return connection_.watch(now, timeout); }
  std::string end_cause() const override;
  bool finish_sending() override;

 private:
  std::size_t write(Parts parts) override;
  bool read_more() override;
  void break_off() override { connection_.break_off(); }

  void note_fragment(OfiBuffer& buffer, std::span<const std::byte> fragment) override;
  void note_sent(OfiBuffer& buffer) override;
  void note_failure(const std::string& why) override;

  struct Composed {
    OfiBuffer* buffer;
    std::size_t bytes;
  };
  bool post(const Composed& fragment);
  bool post_composed();
  bool say_taken();
  void say(OfiWord word, std::uint64_t count);
  void ring();

  bool take_fragment();
  void listen();
  void hear(std::span<const std::byte> word);
  void mind_end();
  void end();
  void expect(bool is_behind);

  const Peer peer_;
  const std::shared_ptr<OfiEndpoint> endpoint_;
  Stream connection_;
  std::uint64_t sending_tag_;
  Status status_;

  FragmentWindow window_;
  std::size_t owned_ = 0;             ///< send buffers of this pipe
  std::vector<OfiBuffer*> free_;      ///< for fragments with bytes
  OfiBuffer* word_buffer_ = nullptr;  ///< for words, if it is free
  OfiBuffer* words_own_ = nullptr;    ///< the same, also if it is under way
  std::deque<Composed> composed_;     ///< for which the provider had no room
  std::uint64_t posted_ = 0;          ///< fragments and words
  std::uint64_t rung_for_ = 0;        ///< of these the peer was told by a bell

  struct Arrived {
    OfiBuffer* buffer = nullptr;
    std::span<const std::byte> bytes;
  };
  std::vector<Arrived> arrived_;   ///< by number, modulo the window's width; not yet taken
  std::uint64_t has_come_ = 0;     ///< fragments and words
  std::uint64_t was_told_of_ = 0;  ///< by bells
  bool is_expecting_ = false;      ///< more were told of than have come, or a failure is to be explained

  bool has_heard_ = false;
  bool has_greeted_ = false;
  std::optional<std::uint64_t> last_;  ///< so many fragments come in all
  bool has_said_last_ = false;
  bool has_said_taken_ = false;
  bool was_taken_ = false;  ///< the peer has taken all
  std::string failure_;     ///< of the fabric
  Nanoseconds failed_at_ = 0;
  std::string end_cause_;
};

}  // namespace ronde::transport
