// Stream: a pipe over one connected stream socket. On the wire a message is its head (message_head.h), then its bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/forked_children.h"
#include "base/unique_fd.h"
#include "transport/integrity.h"
#include "transport/messages/pipe.h"
#include "transport/tcp/byte_pipe.h"
#include "transport/tcp/silence.h"
#include "transport/tcp/tcp_connection.h"

namespace ronde::transport {

/// Used under one lock. Never blocks.
class Stream final : public BytePipe {
 public:
  /// `connection`: of whose first message nothing has been read. `peer`: its rank. `integrity`: the same at both ends.
  Stream(TcpConnection connection, int peer, Integrity integrity = Integrity::checksum);

  int descriptor() const override { return socket_.get(); }
  std::uint32_t events() const override;
  void note_events(std::uint32_t events) override;
  /// The socket has news: bytes to read, or `ends`: nothing will come after what is there. Until then receive() asks
  /// the kernel for nothing.
  void note_news(bool ends) {
    may_read_ = true;
    ends_ = ends_ || ends;
  }
  bool finish_sending() override;

  bool watch(Nanoseconds now, const HostTimeout& timeout) override;
  std::string end_cause() const override { return end_cause_; }

  /// Ends the connection: both sides read its end.
  void break_off() override;

 private:
  std::size_t write(Parts parts) override;
  bool read_more() override;
  bool waits_for_news() const override { return !may_read_ && !ends_ && is_in_order(); }
  std::size_t read_into(const std::array<std::span<std::byte>, 2>& rooms);
  void end();
  void note_cause(int error);
  void reset_connection();

  UniqueFd socket_;
  const KeptFromForkedChildren kept_from_children_;
  bool may_read_ = true;
  bool ends_ = false;
  bool has_finished_ = false;
  Silence silence_;
  CongestionControl congestion_;
  std::string end_cause_;
};

}  // namespace ronde::transport
