// RingPipe: a pipe between two ranks of a host, over a link of their arena's rings. Behind each message lies its
// channel, a u64: behind, so that what is received need not be moved to be handed on without it.
#pragma once

#include "transport/messages/pipe.h"

namespace ronde::transport {

class RingPipe final : public Pipe {
 public:
  /// `link` must outlive this; nobody else may use it. `process`: a pidfd of the peer, -1 if there is none: then its
  /// death does not show here.
  RingPipe(Link& link, int process) : link_(link), process_(process) {}

  void send(Channel channel, Parts message) override;
  void send_lent(Channel channel, Parts message) override;
  void keep_lent() override { link_.keep_lent(); }
  void drop_lent() override { link_.drop_lent(); }
  void recycle(std::vector<std::byte>&& memory) override { link_.recycle(std::move(memory)); }
  bool flush() override { return link_.flush(); }
  Status status() const override { return link_.status().is_ok() ? status_ : link_.status(); }

  int descriptor() const override { return process_; }
  std::uint32_t events() const override;
  void note_events(std::uint32_t) override { ends_ = true; }
  /// A peer that has died takes nothing.
  bool finish_sending() override { return ends_ || flush(); }

 protected:
  bool next(Channel& channel, std::vector<std::byte>& message) override;

 private:
  Parts with_trailer(Channel channel, Parts message);

  Link& link_;
  Channel trailer_ = 0;  ///< of the last message, which may be lent
  std::vector<std::span<const std::byte>> parts_;
  const int process_;
  bool ends_ = false;
  Status status_;
};

}  // namespace ronde::transport
