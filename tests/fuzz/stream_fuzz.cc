// What comes over a connection of ranks (transport/tcp/stream.h). Its sender has proved the job's key; what changes on
// the way must be seen, and must not be believed. The first byte says how the rest is checked and cut.
#include <sys/socket.h>

#include "fuzz/target.h"
#include "transport/tcp/stream.h"

namespace {

using ronde::UniqueFd;
using ronde::transport::Integrity;
using ronde::transport::Stream;

constexpr std::size_t kMost = 64 << 10;

std::pair<UniqueFd, UniqueFd> connection() {
  int sockets[2];
  ronde::fuzz::expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
  return {UniqueFd(sockets[0]), UniqueFd(sockets[1])};
}

std::string said(Integrity integrity, const std::vector<std::size_t>& messages) {
  auto [near, far] = connection();
  Stream stream({std::move(near)}, 1, integrity);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    stream.send(i % 3, std::vector<std::byte>(messages[i], std::byte{static_cast<unsigned char>(i)}));
  }
  stream.flush();
  std::string bytes(kMost, '\0');
  const ssize_t got = ::recv(far.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return std::string(1, static_cast<char>(integrity)) + bytes;
}

}  // namespace

std::vector<std::string> ronde::fuzz::seeds() {
  return {said(Integrity::checksum, {0, 1, 100, 7}), said(Integrity::off, {0, 1, 100, 7}),
          said(Integrity::checksum, {5000}), said(Integrity::mac, {0, 1, 100, 7}),
          said(Integrity::encrypt, {0, 1, 100, 7})};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > kMost) {
    return 0;
  }
  const auto integrity = static_cast<Integrity>(data[0] & 3U);
  std::pair<UniqueFd, UniqueFd> both = connection();
  UniqueFd& far = both.second;
  Stream stream({std::move(both.first)}, 1, integrity);
  const std::size_t cut = 1 + data[0] % size;
  std::size_t given = 0;
  const auto give = [&](std::size_t from, std::size_t to) {
    if (to > from) {
      const ssize_t sent = ::send(far.get(), data + from, to - from, MSG_NOSIGNAL);
      given += sent > 0 ? static_cast<std::size_t>(sent) : 0;
    }
  };
  std::size_t received = 0;
  std::vector<std::byte> message;
  const auto take = [&](bool ends) {
    for (Stream::Channel channel = 0; channel < 3; ++channel) {
      stream.note_news(ends);
      while (stream.receive(channel, message)) {
        received += message.size();
      }
    }
  };
  give(1, std::min(cut, size));
  take(false);
  give(std::max<std::size_t>(1, cut), size);
  far.reset();
  take(true);
  ronde::fuzz::expect(received <= given);  // no byte that was not sent
  return 0;
}
