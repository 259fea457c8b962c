#include "transport/ofi/endpoint.h"

#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <utility>

#include <rdma/fi_eq.h>
#include <rdma/fi_tagged.h>

#include "ofi/providers.h"

namespace ronde::transport {

namespace {

/// The first pause until the next look where no descriptor tells, and the longest, to which it doubles in vain.
constexpr Nanoseconds kFirstPause = 2 * kMillisecond;
constexpr Nanoseconds kShortPause = 100 * kMicrosecond;  ///< where no descriptor, or edges alone, tell of what comes
constexpr Nanoseconds kLongestPause = 64 * kMillisecond;
/// Completions that are read at once.
constexpr std::size_t kAtOnce = 16;
/// One look takes in no more: an engine's step is short.
constexpr std::size_t kMostInOneLook = 64;
/// Of a provider of whose descriptor only edges tell, a queue that is read empty may have left bytes in a socket: it is
/// read so often in a row, and looked at so often again after the last completion.
constexpr int kEmptyReads = 3;
constexpr int kSettlingLooks = 10;
constexpr int kLeastTagBits = 48;

OfiBuffer& buffer_of(void* context) { return *static_cast<OfiBuffer*>(context); }

}  // namespace

OfiEndpoint::Memory::~Memory() {
  if (!bytes.empty()) {
    ::munmap(bytes.data(), bytes.size());
  }
}

Status OfiEndpoint::Memory::map(std::size_t size) {
  void* const place = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) {
    return Status::from_errno("memory for fragments", errno);
  }
  bytes = {static_cast<std::byte*>(place), size};
  ::madvise(place, size, MADV_DONTFORK);  // a card writes to pages, not to addresses
  return {};
}

Result<std::shared_ptr<OfiEndpoint>> OfiEndpoint::open(const ofi::OfiLibrary& library, const FabricOptions& options,
                                                       std::size_t peers, std::size_t most) {
  std::shared_ptr<OfiEndpoint> made(new OfiEndpoint);
  FabricOptions with_room = options;
  const FragmentRoom room = FragmentRoom::for_peers(most, SIZE_MAX);
  with_room.completions = std::max<std::size_t>(64, (room.receive_buffers() + room.send_buffers()) * peers);
  RONDE_ASSIGN_OR_RETURN(made->fabric_, FabricObjects::open(library, with_room));
  RONDE_RETURN_IF_ERROR(made->set_up(peers, most).with_context("libfabric's provider " + made->fabric_->provider()));
  return made;
}

OfiEndpoint::~OfiEndpoint() {
  fabric_.reset();  // before the memory that it may write to
}

Status OfiEndpoint::set_up(std::size_t peers, std::size_t most) {
  const fi_info& info = fabric_->info();
  if (std::bit_width(info.ep_attr->mem_tag_format) < kLeastTagBits) {
    return Status::error(Code::not_implemented, "its tags are too short to tell peers from strangers");
  }
  has_edges_only_ = ofi::has_edges_only(fabric_->provider());
  room_ = FragmentRoom::for_peers(most, info.ep_attr->max_msg_size);
  const std::size_t receive = room_.receive_buffers() * peers;
  const std::size_t all = receive + room_.send_buffers() * peers;
  RONDE_RETURN_IF_ERROR(memory_.map(std::max<std::size_t>(1, all * room_.fragment_bytes)));
  RONDE_ASSIGN_OR_RETURN(descriptor_of_memory_, fabric_->register_memory(memory_.bytes));
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer_.is_open()) {
    return Status::from_errno("timerfd_create()", errno);
  }
  buffers_.resize(all);
  for (std::size_t i = 0; i < all; ++i) {
    buffers_[i].memory = memory_.bytes.data() + i * room_.fragment_bytes;
    buffers_[i].is_for_receiving = i < receive;
    if (i < receive) {
      post_receive(buffers_[i]);
    }
  }
  given_out_ = receive;
  return broken_;
}

Status OfiEndpoint::add(OfiPeer& peer, std::uint64_t tag) {
  if (!peers_.emplace(tag, &peer).second) {
    return Status::error(Code::internal, "two pairs of ranks have made up one word");
  }
  return {};
}

void OfiEndpoint::forget(OfiPeer& peer) {
  std::erase_if(peers_, [&](const auto& each) { return each.second == &peer; });
  for (OfiBuffer& each : buffers_) {
    each.sender = each.sender == &peer ? nullptr : each.sender;
  }
}

std::vector<OfiBuffer*> OfiEndpoint::take_send_buffers() {
  std::vector<OfiBuffer*> taken;
  while (taken.size() < room_.send_buffers() && given_out_ < buffers_.size()) {
    taken.push_back(&buffers_[given_out_++]);
  }
  return taken;
}

// ---- Sending and receiving

OfiEndpoint::Posted OfiEndpoint::post(OfiBuffer& buffer, OfiPeer& sender, fi_addr_t to, std::uint64_t tag,
                                      std::size_t bytes) {
  if (!broken_) {
    return Posted::failed;
  }
  const ssize_t rc =
      ::fi_tsend(fabric_->endpoint(), buffer.memory, bytes, descriptor_of_memory_, to, tag, &buffer.context);
  if (rc == 0) {
    buffer.sender = &sender;
    ++under_way_;
    set_timer();
    return Posted::sent;
  }
  was_full_ = rc == -FI_EAGAIN;
  if (!was_full_) {
    sender.note_failure(fabric_->library().error("fi_tsend()", rc).message());
    return Posted::failed;
  }
  set_timer();
  return Posted::full;
}

void OfiEndpoint::give_back(OfiBuffer& buffer) { post_receive(buffer); }

void OfiEndpoint::post_receive(OfiBuffer& buffer) {
  if (!broken_) {
    return;
  }
  const ssize_t rc = ::fi_trecv(fabric_->endpoint(), buffer.memory, room_.fragment_bytes, descriptor_of_memory_,
                                FI_ADDR_UNSPEC, 0, ~std::uint64_t{0}, &buffer.context);
  if (rc == -FI_EAGAIN) {
    to_post_.push_back(&buffer);
  } else if (rc != 0) {
    broken_ = fabric_->library().error("fi_trecv()", rc);
  }
}

void OfiEndpoint::post_waiting() {
  for (std::size_t left = to_post_.size(); left > 0; --left) {
    OfiBuffer* const buffer = to_post_.front();
    to_post_.pop_front();
    post_receive(*buffer);
  }
}

// ---- News

void OfiEndpoint::need_looks(bool is_needed) {
  looks_needed_ += is_needed ? 1 : -1;
  set_timer();
}

std::vector<SharedNews::Watched> OfiEndpoint::descriptors() const {
  std::vector<Watched> all{{timer_.get(), false}};
  if (fabric_->wait_fd() >= 0) {
    all.push_back({fabric_->wait_fd(), has_edges_only_});
  }
  return all;
}

void OfiEndpoint::note_events() {
  std::uint64_t expirations = 0;
  if (timer_is_set_ && ::read(timer_.get(), &expirations, sizeof expirations) == sizeof expirations) {
    timer_is_set_ = false;
    pause_ = std::min(2 * pause_, kLongestPause);
    settling_ = std::max(settling_ - 1, 0);
  } else if (has_edges_only_) {
    settling_ = kSettlingLooks;
  }
}

void OfiEndpoint::look() {
  was_full_ = false;
  is_behind_ = true;
  int empty_reads = 0;
  for (std::size_t read = 0; is_behind_ && read < kMostInOneLook; read += kAtOnce) {
    is_behind_ = read_completions() || (has_edges_only_ && ++empty_reads < kEmptyReads) || !fabric_->may_sleep();
  }
  if (!to_post_.empty()) {
    post_waiting();
  }
  set_timer();
}

/// True: there may be more.
bool OfiEndpoint::read_completions() {
  std::array<fi_cq_tagged_entry, kAtOnce> entries;
  const ssize_t got = ::fi_cq_read(fabric_->completions(), entries.data(), entries.size());
  if (got == -FI_EAGAIN) {
    return false;
  }
  pause_ = 0;
  settling_ = has_edges_only_ ? kSettlingLooks : 0;
  if (got == -FI_EAVAIL) {
    note_error();
    return true;
  }
  if (got < 0) {
    broken_ = broken_ ? fabric_->library().error("fi_cq_read()", got) : broken_;
    return false;
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
    note_completion(buffer_of(entries[i].op_context), entries[i].tag, entries[i].len);
  }
  return static_cast<std::size_t>(got) == entries.size();
}

void OfiEndpoint::note_completion(OfiBuffer& buffer, std::uint64_t tag, std::size_t bytes) {
  if (!buffer.is_for_receiving) {
    --under_way_;
    if (OfiPeer* const sender = std::exchange(buffer.sender, nullptr)) {
      sender->note_sent(buffer);
    }
    return;
  }
  const auto peer = peers_.find(tag & kTagMask);
  if (peer == peers_.end() || bytes < FragmentHead::kBytes || bytes > room_.fragment_bytes) {
    ++strangers_;
    post_receive(buffer);
    return;
  }
  peer->second->note_fragment(buffer, {buffer.memory, bytes});
}

void OfiEndpoint::note_error() {
  fi_cq_err_entry error{};
  if (::fi_cq_readerr(fabric_->completions(), &error, 0) != 1 || error.op_context == nullptr) {
    return;
  }
  OfiBuffer& buffer = buffer_of(error.op_context);
  if (buffer.is_for_receiving) {
    ++strangers_;  // a message too long for the buffer, say
    post_receive(buffer);
    return;
  }
  --under_way_;
  if (OfiPeer* const sender = std::exchange(buffer.sender, nullptr)) {
    sender->note_failure(fabric_->library().error("a fragment was not sent", error.err).message());
    sender->note_sent(buffer);
  }
}

/// Where only a look tells, or moves what is under way.
void OfiEndpoint::set_timer() {
  const bool is_needed =
      under_way_ > 0 || was_full_ || is_behind_ || settling_ > 0 || !to_post_.empty() || looks_needed_ > 0;
  if (timer_is_set_ || !is_needed) {
    return;
  }
  const bool is_short = needs_bells() || has_edges_only_;
  pause_ = std::max(pause_, is_short ? kShortPause : kFirstPause);
  itimerspec when{};
  when.it_value.tv_nsec = pause_;
  timer_is_set_ = ::timerfd_settime(timer_.get(), 0, &when, nullptr) == 0;
}

}  // namespace ronde::transport
