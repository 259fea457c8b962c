#include "launch/store_relay.h"

#include <sys/socket.h>

#include <algorithm>
#include <span>
#include <utility>

#include "launch/agent_messages.h"
#include "store/exchange_frames.h"
#include "store/unix_address.h"

namespace ronde::launch {

StoreRelay StoreRelay::of_agent(std::vector<UniqueFd> listeners) {
  StoreRelay relay;
  relay.listeners_ = std::move(listeners);
  return relay;
}

StoreRelay StoreRelay::of_launcher(std::string socket_path) {
  StoreRelay relay;
  relay.socket_path_ = std::move(socket_path);
  return relay;
}

void StoreRelay::watch(std::vector<pollfd>& entries) const {
  for (const UniqueFd& listener : listeners_) {
    entries.push_back({listener.get(), POLLIN, 0});
  }
  for (const auto& [id, connection] : connections_) {
    const short events = connection.waiting.empty() ? POLLIN : POLLIN | POLLOUT;
    entries.push_back({connection.socket.get(), events, 0});
  }
}

void StoreRelay::move(const std::vector<pollfd>& entries, FramePipe& frames) {
  const auto is_ready = [&](int fd) {
    return std::any_of(entries.begin(), entries.end(),
                       [fd](const pollfd& entry) { return entry.fd == fd && entry.revents != 0; });
  };
  std::vector<std::uint64_t> ids;
  for (const auto& [id, connection] : connections_) {
    if (is_ready(connection.socket.get())) {
      ids.push_back(id);
    }
  }
  for (const std::uint64_t id : ids) {
    if (!push(id, frames)) {
      continue;
    }
    while (true) {
      store::Packet packet;
      // No descriptors: they mean nothing on another host. Who sends one loses its connection.
      const store::PacketResult result = connections_[id].socket.receive(store::kMaxFrameBytes, 0, packet);
      if (result == store::PacketResult::again || result == store::PacketResult::crowded) {
        break;
      }
      if (result != store::PacketResult::done) {
        drop(id, frames);
        break;
      }
      const auto* const text = reinterpret_cast<const char*>(packet.bytes.data());
      frames.put(FrameKind::packet, bytes_of(id), {text, packet.bytes.size()});
    }
  }
  for (const UniqueFd& listener : listeners_) {
    if (is_ready(listener.get())) {
      accept_some(listener.get(), frames);
    }
  }
}

void StoreRelay::accept_some(int listener, FramePipe& frames) {
  for (int accepted = 0; accepted < 32; ++accepted) {
    UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      return;
    }
    if (!store::is_same_user(socket.get()) || connections_.size() >= kMaxConnections) {
      continue;
    }
    const std::uint64_t id = next_id_++;
    connections_[id].socket = store::PacketSocket(std::move(socket));
    frames.put(FrameKind::open, bytes_of(id));
  }
}

void StoreRelay::open(std::uint64_t id, FramePipe& frames) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const Result<sockaddr_un> address = store::unix_address(socket_path_);
  if (!socket.is_open() || !address || connections_.contains(id) || connections_.size() >= kMaxConnections ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.value()), sizeof(sockaddr_un)) != 0) {
    frames.put(FrameKind::close_it, bytes_of(id));
    return;
  }
  connections_[id].socket = store::PacketSocket(std::move(socket));
}

bool StoreRelay::push(std::uint64_t id, FramePipe& frames) {
  Connection& connection = connections_[id];
  auto sent = connection.waiting.begin();
  store::PacketResult result = store::PacketResult::done;
  for (; sent != connection.waiting.end(); ++sent) {
    result = connection.socket.send(std::as_bytes(std::span(*sent)));
    if (result != store::PacketResult::done) {
      break;
    }
  }
  connection.waiting.erase(connection.waiting.begin(), sent);
  if (result == store::PacketResult::closed || result == store::PacketResult::bad) {
    drop(id, frames);
    return false;
  }
  return true;
}

void StoreRelay::take(const Frame& frame, FramePipe& frames) {
  const std::optional<std::uint64_t> id = record_of<std::uint64_t>(frame.bytes);
  if (!id) {
    return;
  }
  const auto found = connections_.find(*id);
  if (frame.kind == FrameKind::open && !socket_path_.empty()) {
    open(*id, frames);
  } else if (frame.kind == FrameKind::close_it && found != connections_.end()) {
    connections_.erase(found);
  } else if (frame.kind == FrameKind::packet && found != connections_.end() && frame.bytes.size() > sizeof *id) {
    found->second.waiting.push_back(frame.bytes.substr(sizeof *id));
    (void)push(*id, frames);
  }
}

void StoreRelay::drop(std::uint64_t id, FramePipe& frames) {
  connections_.erase(id);
  frames.put(FrameKind::close_it, bytes_of(id));
}

}  // namespace ronde::launch
