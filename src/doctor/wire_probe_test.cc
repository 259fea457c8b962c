#include "doctor/wire_probe.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "store/tcp_address.h"

namespace ronde::doctor {
namespace {

constexpr Nanoseconds kProbeLimit = 20 * kSecond;

struct ProbeListener {
  ProbeListener() {
    auto made = store::listen_tcp({"127.0.0.1", 0}, store::HostIs::numbers);
    EXPECT_TRUE(made) << made.status().message();
    socket = std::move(*made);
    address = "127.0.0.1:" + std::to_string(store::port_of(socket.get()).value());
  }
  UniqueFd socket;
  std::string address;
};

TEST(WireProbe, BytesGoBothWays) {
  const ProbeListener listener;
  const JobKey key = make_job_key().value();
  auto answering = std::async(std::launch::async, [&] {
    Result<WireProbe> probe = WireProbe::accept(listener.socket.get(), key, kProbeLimit);
    std::vector<char> bytes(3000000);
    return probe && probe->receive(bytes.data(), bytes.size(), kProbeLimit) &&
           probe->send(bytes.data(), bytes.size(), kProbeLimit);
  });
  Result<WireProbe> probe = WireProbe::connect(listener.address, key, kProbeLimit);
  ASSERT_TRUE(probe) << probe.status().message();
  const std::vector<char> sent(3000000, 'x');
  std::vector<char> got(sent.size());
  EXPECT_TRUE(probe->send(sent.data(), sent.size(), kProbeLimit));
  EXPECT_TRUE(probe->receive(got.data(), got.size(), kProbeLimit));
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(answering.get());
}

TEST(WireProbe, AnotherKeyIsNoPartner) {
  const ProbeListener listener;
  const JobKey key = make_job_key().value();
  auto answering = std::async(std::launch::async,
                              [&] { return WireProbe::accept(listener.socket.get(), key, kProbeLimit).is_ok(); });
  const Result<WireProbe> stranger = WireProbe::connect(listener.address, make_job_key().value(), kProbeLimit);
  EXPECT_EQ(stranger.status().code(), Code::auth_failed);
  EXPECT_TRUE(WireProbe::connect(listener.address, key, kProbeLimit)) << "the stranger costs nothing";
  EXPECT_TRUE(answering.get());
}

TEST(WireProbe, NobodyIsAnErrorInTime) {
  std::string address;
  {
    const ProbeListener gone;
    address = gone.address;
  }
  EXPECT_NE(WireProbe::connect(address, make_job_key().value(), kProbeLimit).status().message().find("refused"),
            std::string::npos);
  const ProbeListener listener;
  EXPECT_EQ(WireProbe::accept(listener.socket.get(), make_job_key().value(), kMillisecond).status().code(),
            Code::timed_out);
}

}  // namespace
}  // namespace ronde::doctor
