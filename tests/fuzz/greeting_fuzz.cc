// What a stranger may send to the port at which ranks meet (transport/tcp/greeting.h), and what one may answer who
// listens in a rank's place: nothing but the job's key opens either.
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz/target.h"
#include "transport/tcp/greeting.h"

namespace {

using ronde::UniqueFd;
using ronde::transport::Greeted;
using ronde::transport::Greeting;
using ronde::transport::TcpMeeting;

const TcpMeeting& meeting() {
  static const TcpMeeting kMeeting{ronde::JobKey{}, "fuzz/1", 0, 3};
  return kMeeting;
}

/// Sends the bytes in two parts, and ends.
template <typename Made>
Greeted greeted(const Made& made, const std::uint8_t* data, std::size_t size, std::size_t first) {
  int sockets[2];
  ronde::fuzz::expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
  UniqueFd stranger(sockets[1]);
  Greeting greeting = made(UniqueFd(sockets[0]));
  Greeted state = greeting.advance();
  for (const auto& [from, to] : {std::pair<std::size_t, std::size_t>{0, first}, {first, size}}) {
    if (to > from) {
      [[maybe_unused]] const ssize_t sent = ::send(stranger.get(), data + from, to - from, MSG_NOSIGNAL);
    }
    for (int i = 0; i < 8 && state == Greeted::not_yet; ++i) {
      state = greeting.advance();
    }
  }
  stranger.reset();
  for (int i = 0; i < 8 && state == Greeted::not_yet; ++i) {
    state = greeting.advance();
  }
  return state;
}

}  // namespace

std::vector<std::string> ronde::fuzz::seeds() {
  // The greeting of whoever asks for rank 0 in another job.
  int sockets[2];
  expect(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets) == 0);
  const UniqueFd here(sockets[1]);
  const TcpMeeting other{JobKey{}, "another/1", 1, 3};
  Greeting greeting = Greeting::to(UniqueFd(sockets[0]), other, 0);
  greeting.advance();
  std::string said(256, '\0');
  const ssize_t got = ::recv(here.get(), said.data(), said.size(), MSG_DONTWAIT);
  said.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return {said, said + std::string(48, 'x'), std::string(200, '\0')};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::size_t first = size > 0 ? data[0] % (size + 1) : 0;
  const auto from_anybody = [](UniqueFd socket) { return Greeting::from_anybody(std::move(socket), meeting()); };
  const auto to_a_rank = [](UniqueFd socket) { return Greeting::to(std::move(socket), meeting(), 2); };
  ronde::fuzz::expect(greeted(from_anybody, data, size, first) != Greeted::done);
  ronde::fuzz::expect(greeted(to_a_rank, data, size, first) != Greeted::done);
  return 0;
}
