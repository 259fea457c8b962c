#include "site/courier.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <thread>

#include "base/unique_fd.h"
#include "site/layout.h"
#include "site/private_file.h"
#include "site/testing/variables.h"
#include "store/private_folder.h"

namespace ronde::site {
namespace {

const std::string kText = "tcp:10.0.0.1:4711 0123456789abcdef";

// ---- PMI

/// A server of one rank, of which the test says what it answers.
class FakePmi {
 public:
  explicit FakePmi(std::map<std::string, std::string> answers) : answers_(std::move(answers)) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    client_ = UniqueFd(ends[0]);
    server_ = UniqueFd(ends[1]);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakePmi() { end(); }
  /// Reads all that has come.
  void end() {
    if (thread_.joinable()) {
      ::shutdown(client_.get(), SHUT_WR);
      thread_.join();
    }
  }
  int client() const { return client_.get(); }
  /// All that has been asked, after end().
  std::vector<std::string> asked;

 private:
  void serve() {
    std::string got;
    char byte = 0;
    while (::read(server_.get(), &byte, 1) == 1) {
      if (byte != '\n') {
        got += byte;
        continue;
      }
      asked.push_back(got);
      const std::size_t space = got.find(' ');
      const std::string command = got.substr(0, space);
      std::string answer = answers_.contains(command) ? answers_[command] : "";
      if (const std::size_t value = got.find(" value="); value != std::string::npos) {
        kept_ = got.substr(value + 7);
      }
      if (const std::size_t hole = answer.find("KEPT"); hole != std::string::npos) {
        answer.replace(hole, 4, kept_);
      }
      // In pieces, as a socket may bring them.
      for (const char each : answer) {
        EXPECT_EQ(::write(server_.get(), &each, 1), 1);
      }
      got.clear();
    }
  }

  std::map<std::string, std::string> answers_;
  std::string kept_;
  UniqueFd client_;
  UniqueFd server_;
  std::thread thread_;
};

const std::map<std::string, std::string> kHydra = {
    {"cmd=init", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"},
    {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_42_0\n"},
    {"cmd=put", "cmd=put_result rc=0 msg=success\n"},
    {"cmd=barrier_in", "cmd=barrier_out\n"},
    {"cmd=get", "cmd=get_result rc=0 msg=success value=KEPT\n"},
    {"cmd=finalize", "cmd=finalize_ack\n"}};

TEST(Pmi, CarriesTheTextOfRankZero) {
  FakePmi pmi(kHydra);
  std::unique_ptr<Courier> courier = pmi_courier(pmi.client(), 0, 2);
  const Result<std::string> carried = courier->carry(kText, 10 * kSecond);
  ASSERT_TRUE(carried) << carried.status().message();
  EXPECT_EQ(carried.value(), kText);
  EXPECT_EQ(courier->carry(kText, 10 * kSecond).value(), kText);
  EXPECT_TRUE(courier->lasts());
  courier.reset();
  pmi.end();
  ASSERT_EQ(pmi.asked.size(), 6u);
  EXPECT_TRUE(pmi.asked[2].starts_with("cmd=put kvsname=kvs_42_0 key=ronde value="));
  EXPECT_EQ(pmi.asked[2].find(kText), std::string::npos);  // a value is one word
  EXPECT_EQ(pmi.asked[5], "cmd=finalize");
}

TEST(Pmi, SaysWhatIsWrong) {
  auto answers = kHydra;
  answers["cmd=get"] = "cmd=get_result rc=-1 msg=key_ronde_not_found value=unknown\n";
  FakePmi lacks(answers);
  EXPECT_NE(pmi_courier(lacks.client(), 1, 2)->carry("", 10 * kSecond).status().message().find("key_ronde_not_found"),
            std::string::npos);
  answers["cmd=barrier_in"] = "";
  // A deadline that passes before the barrier is asked for says nothing of the barrier: then a longer one.
  for (Nanoseconds timeout = 50 * kMillisecond;; timeout *= 2) {
    FakePmi waits(answers);
    const Status late = pmi_courier(waits.client(), 1, 3)->carry("", timeout).status();
    EXPECT_EQ(late.code(), Code::timed_out);
    waits.end();
    if (waits.asked.back().starts_with("cmd=barrier_in")) {
      EXPECT_NE(late.message().find("not all 3 ranks have come"), std::string::npos) << late.message();
      break;
    }
    EXPECT_NE(late.message().find("does not answer"), std::string::npos) << late.message();
    ASSERT_LT(timeout, 20 * kSecond) << "the barrier was never asked for";
  }
}

TEST(Pmi, AServerThatIsGoneOrTalksWithoutEnd) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd client(ends[0]);
  {
    const UniqueFd server(ends[1]);
    const std::string endless(9000, 'x');
    ASSERT_EQ(::write(server.get(), endless.data(), endless.size()), static_cast<ssize_t>(endless.size()));
    EXPECT_EQ(pmi_courier(client.get(), 0, 2)->carry(kText, 10 * kSecond).status().code(), Code::system_error);
  }
  EXPECT_EQ(pmi_courier(client.get(), 0, 2)->carry(kText, 10 * kSecond).status().code(), Code::system_error);
}

// ---- Files

class Files : public ::testing::Test {
 protected:
  const store::PrivateFolder folder_ = std::move(store::PrivateFolder::create()).value();
  const std::vector<std::string> parents_{"/nonexistent", folder_.path()};

  ~Files() override { ::rmdir(folder_in().c_str()); }
  std::string folder_in() const { return folder_.path() + "/ronde-jobs-of-" + std::to_string(::geteuid()); }
};

TEST_F(Files, AreFoundByRanksThatComeEarlier) {
  const std::unique_ptr<Courier> zero = file_courier("job", 0, parents_);
  const std::unique_ptr<Courier> one = file_courier("job", 1, parents_);
  Result<std::string> found = Status::error(Code::internal, "");
  std::thread early([&] { found = one->carry("", 10 * kSecond); });
  EXPECT_TRUE(zero->carry(kText, kSecond));
  early.join();
  ASSERT_TRUE(found) << found.status().message();
  EXPECT_EQ(found.value(), kText);
  EXPECT_EQ(file_courier("other job", 1, parents_)->carry("", 0).status().code(), Code::timed_out);
}

TEST_F(Files, GoWithTheirMaker) {
  file_courier("job", 0, parents_)->carry(kText, kSecond).status();
  EXPECT_EQ(file_courier("job", 1, parents_)->carry("", 0).status().code(), Code::timed_out);
}

TEST_F(Files, OfAFolderThatIsOpenToOthersDoNotCount) {
  const std::unique_ptr<Courier> zero = file_courier("job", 0, parents_);
  ASSERT_TRUE(zero->carry(kText, kSecond));
  ASSERT_EQ(::chmod(folder_in().c_str(), 0711), 0);
  EXPECT_EQ(file_courier("job", 1, parents_)->carry("", 0).status().code(), Code::timed_out);
  EXPECT_FALSE(file_courier("another", 0, parents_)->carry(kText, kSecond));
}

TEST_F(Files, OfKeysMustBePrivate) {
  const std::string path = folder_.path() + "/key";
  const std::string key(64, 'a');
  std::ofstream(path) << "\n" << key << " \n";
  ::chmod(path.c_str(), 0600);
  const Variables variables = recorded({{"RONDE_KEY_FILE", path}});
  ASSERT_TRUE(key_of_user(variables));
  EXPECT_EQ(to_hex(*key_of_user(variables).value()), key);
  EXPECT_EQ(to_hex(*key_of_user(recorded({{"RONDE_KEY_FILE", path}, {"RONDE_KEY", std::string(64, 'b')}})).value()),
            std::string(64, 'b'));
  ::chmod(path.c_str(), 0640);
  EXPECT_EQ(key_of_user(variables).status().code(), Code::auth_failed);
  std::ofstream(path) << "short";
  ::chmod(path.c_str(), 0600);
  const std::string why = key_of_user(variables).status().message();
  EXPECT_NE(why.find("64 hexadecimal digits"), std::string::npos) << why;
  EXPECT_NE(why.find(path), std::string::npos) << why;
  EXPECT_EQ(read_private_file(UniqueFd(), folder_.path()).status().code(), Code::auth_failed);
  EXPECT_EQ(read_private_file(UniqueFd(), "/nonexistent").status().code(), Code::system_error);
  EXPECT_FALSE(key_of_user(recorded({})).value());
}

// ---- Seals and desks

std::unique_ptr<Seal> with_key(char digit, const std::string& job = "job") {
  return key_seal(parse_job_key(std::string(64, digit)).value(), job);
}

TEST(Seals, OpenWhatWasAnsweredToTheirQuestion) {
  for (const bool has_key : {true, false}) {
    const std::unique_ptr<Seal> zero = has_key ? with_key('1') : open_seal("job");
    const std::unique_ptr<Seal> one = has_key ? with_key('1') : open_seal("job");
    const Bytes first = one->ask().value();
    Bytes answer = zero->answer(first, kText).value();
    EXPECT_EQ(one->open(answer).value(), kText);
    const std::string seen(reinterpret_cast<const char*>(answer.data()), answer.size());
    EXPECT_EQ(seen.find("tcp:"), std::string::npos);
    const Bytes second = one->ask().value();
    EXPECT_NE(first, second);
    EXPECT_EQ(one->open(answer).status().code(), Code::auth_failed);  // was the first's
    answer = zero->answer(second, kText).value();
    for (std::size_t bit = 0; bit < answer.size() * 8; bit += 5) {
      Bytes damaged = answer;
      damaged[bit / 8] ^= std::byte{1} << (bit % 8);
      // X25519 leaves out its key's highest bit.
      EXPECT_TRUE(!one->open(damaged) || bit == 255) << bit;
    }
    for (std::size_t length = 0; length < answer.size(); ++length) {
      EXPECT_FALSE(one->open(std::span(answer).first(length)));
    }
  }
}

TEST(Seals, OfOtherKeysOrJobsDoNotFit) {
  const std::unique_ptr<Seal> one = with_key('1');
  const Bytes question = one->ask().value();
  EXPECT_EQ(with_key('2')->answer(question, kText).status().code(), Code::auth_failed);
  EXPECT_EQ(with_key('1', "another")->answer(question, kText).status().code(), Code::auth_failed);
  EXPECT_EQ(with_key('1')->answer(Bytes(64), kText).status().code(), Code::auth_failed);
  EXPECT_EQ(with_key('1')->answer({}, kText).status().code(), Code::auth_failed);
  const std::unique_ptr<Seal> open = open_seal("job");
  const Bytes asked = open->ask().value();
  EXPECT_FALSE(open->open(open_seal("another")->answer(asked, kText).value()));
  EXPECT_FALSE(open->answer(Bytes(32), kText));  // a point of small order
}

DeskPlace here(const std::string& job) {
  return {"127.0.0.1", "127.0.0.1", desk_ports(job + std::to_string(::getpid()), recorded({})).value()};
}

TEST(Desk, AnswersThoseWhoHaveTheKey) {
  const DeskPlace place = here("answers");
  const std::unique_ptr<Courier> one = desk_courier(place, 1, with_key('1'));
  Result<std::string> found = Status::error(Code::internal, "");
  std::thread early([&] { found = one->carry("", 20 * kSecond); });
  const std::unique_ptr<Courier> zero = desk_courier(place, 0, with_key('1'));
  ASSERT_TRUE(zero->carry(kText, kSecond));
  early.join();
  ASSERT_TRUE(found) << found.status().message();
  EXPECT_EQ(found.value(), kText);
  const Status other = desk_courier(place, 2, with_key('2'))->carry("", kSecond).status();
  EXPECT_EQ(other.code(), Code::timed_out);
  EXPECT_NE(other.message().find("another key"), std::string::npos) << other.message();
}

TEST(Desk, TakesTheNextPortWhereOneIsTaken) {
  const DeskPlace place = here("next");
  const std::unique_ptr<Courier> foreign = desk_courier(place, 0, with_key('2'));
  ASSERT_TRUE(foreign->carry("another job's", kSecond));
  const std::unique_ptr<Courier> zero = desk_courier(place, 0, with_key('1'));
  ASSERT_TRUE(zero->carry(kText, kSecond));
  EXPECT_EQ(desk_courier(place, 1, with_key('1'))->carry("", 20 * kSecond).value(), kText);
}

TEST(Desk, PortsAreOfTheRange) {
  const auto ports = [](const std::string& range) {
    return desk_ports("job", recorded({{"RONDE_PORT_RANGE", range}}));
  };
  EXPECT_EQ(ports("4000-4000").value(), std::vector<std::uint16_t>{4000});
  EXPECT_EQ(ports("").value().size(), 8u);
  EXPECT_EQ(desk_ports("job", recorded({})).value(), desk_ports("job", recorded({})).value());
  const std::vector<std::uint16_t> last = ports("65530-65535").value();
  EXPECT_EQ(last.size(), 6u);
  for (const std::uint16_t port : last) {
    EXPECT_GE(port, 65530);
  }
  for (const char* bad : {"4000", "4000-", "-1", "4000-3999", "0-5", "1-70000", "1-2x"}) {
    EXPECT_EQ(ports(bad).status().code(), Code::invalid_argument) << bad;
  }
}

// ---- Layouts

TEST(Layout, CountsByHosts) {
  const std::vector<std::string> hosts{"b", "a", "b", "b", "a"};
  const auto text = [&](int rank) {
    const Layout each = layout_of(hosts, rank);
    return std::to_string(each.local_rank) + "/" + std::to_string(each.local_size) + " " +
           std::to_string(each.cross_rank) + "/" + std::to_string(each.cross_size);
  };
  EXPECT_EQ(text(0), "0/3 0/2");
  EXPECT_EQ(text(1), "0/2 1/2");
  EXPECT_EQ(text(2), "1/3 0/2");
  EXPECT_EQ(text(3), "2/3 0/1");
  EXPECT_EQ(text(4), "1/2 1/2");
}

}  // namespace
}  // namespace ronde::site
