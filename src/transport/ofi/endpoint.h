// OfiEndpoint: a rank's one endpoint on a fabric, through which its pipes send and receive fragments.
//
// All bytes lie in one piece of memory, registered once, that is cut into buffers: libfabric is never handed a user's
// memory. Receive buffers are posted for messages of any tag, so that a stranger's message takes a buffer for a moment,
// not memory of the provider's for good. A tag is a random word that the two ranks of a pair alone know (48 bits, for
// each direction another): what comes under another tag is dropped unread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "transport/messages/channels.h"
#include "transport/ofi/fabric_objects.h"
#include "transport/ofi/fragment_window.h"

namespace ronde::transport {

class OfiPeer;

/// A place for one fragment.
struct OfiBuffer {
  fi_context2 context{};  ///< the provider's own, first: an operation is told by its address
  std::byte* memory = nullptr;
  OfiPeer* sender = nullptr;  ///< who has posted it to be sent; null: a receive buffer, or its sender has gone
  bool is_for_receiving = false;
};

/// What an endpoint tells whoever speaks with one peer. Within look().
class OfiPeer {
 public:
  virtual ~OfiPeer() = default;
  /// A fragment has come. The buffer is this peer's until it is given back.
  virtual void note_fragment(OfiBuffer& buffer, std::span<const std::byte> fragment) = 0;
  /// The buffer is free again, whether the fragment has arrived or not.
  virtual void note_sent(OfiBuffer& buffer) = 0;
  /// The provider has given up a fragment.
  virtual void note_failure(const std::string& why) = 0;
};

/// Used under one lock. Never blocks.
class OfiEndpoint final : public SharedNews {
 public:
  /// With room for so many peers, as wide for each as where a rank of the job has `most` of them: both ends of a pipe
  /// have windows of one width.
  static Result<std::shared_ptr<OfiEndpoint>> open(const ofi::OfiLibrary& library, const FabricOptions& options,
                                                   std::size_t peers, std::size_t most);
  ~OfiEndpoint() override;

  const std::vector<std::byte>& address() const { return fabric_->address(); }
  const FabricObjects& fabric() const { return *fabric_; }
  const FragmentRoom& room() const { return room_; }
  /// This rank sleeps on no descriptor of the provider's: peers must tell it by other means that they have sent.
  bool needs_bells() const { return fabric_->wait_fd() < 0; }

  /// From now on what comes under the tag is told to `peer`, until forget(). Requires: not more peers than there is
  /// room for.
  Status add(OfiPeer& peer, std::uint64_t tag);
  void forget(OfiPeer& peer);
  /// Where a peer's address leads.
  Result<fi_addr_t> insert(std::span<const std::byte> address) { return fabric_->insert(address); }
  /// Send buffers of one peer: room().send_buffers() of them. Empty if all were given out.
  std::vector<OfiBuffer*> take_send_buffers();

  enum class Posted {
    sent,    ///< note_sent() will follow
    full,    ///< try again when something has come
    failed,  ///< status() says why
  };
  Posted post(OfiBuffer& buffer, OfiPeer& sender, fi_addr_t to, std::uint64_t tag, std::size_t bytes);
  /// A receive buffer whose fragment was taken.
  void give_back(OfiBuffer& buffer);

  /// Ok, or why nothing comes or goes any more.
  const Status& status() const { return broken_; }
  /// Fragments under tags that nobody has.
  std::uint64_t strangers() const { return strangers_; }

  /// While somebody waits for what no descriptor tells, look() is due again after a short while, and the descriptors
  /// say so: once for each such, and once less when it is over.
  void need_looks(bool is_needed);

  // ---- As SharedNews has them.

  std::vector<Watched> descriptors() const override;
  void note_events() override;
  void look() override;

 private:
  OfiEndpoint() = default;
  Status set_up(std::size_t peers, std::size_t most);
  void post_receive(OfiBuffer& buffer);
  void post_waiting();
  bool read_completions();
  void note_completion(OfiBuffer& buffer, std::uint64_t tag, std::size_t bytes);
  void note_error();
  void set_timer();

  /// Memory of its own, which forked children do not get.
  struct Memory {
    std::span<std::byte> bytes;
    Memory() = default;
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    Status map(std::size_t size);
  };

  FragmentRoom room_;
  Memory memory_;
  std::vector<OfiBuffer> buffers_;  ///< those to receive into first
  std::unique_ptr<FabricObjects> fabric_;
  bool has_edges_only_ = false;
  void* descriptor_of_memory_ = nullptr;
  std::size_t given_out_ = 0;  ///< of the send buffers
  std::deque<OfiBuffer*> to_post_;
  std::unordered_map<std::uint64_t, OfiPeer*> peers_;  ///< by tag
  std::size_t under_way_ = 0;                          ///< fragments posted to be sent
  bool was_full_ = false;                              ///< the provider took none at the last try
  int settling_ = 0;        ///< looks that are to come after the last completion, where edges alone tell
  bool is_behind_ = false;  ///< the last look has left something
  int looks_needed_ = 0;
  std::uint64_t strangers_ = 0;
  Status broken_;
  UniqueFd timer_;
  bool timer_is_set_ = false;
  Nanoseconds pause_ = 0;
};

/// Of the words that pairs make up, what fits into a tag of every provider that Ronde takes.
inline constexpr std::uint64_t kTagMask = (std::uint64_t{1} << 48) - 1;

}  // namespace ronde::transport
