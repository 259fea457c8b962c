// The conformance suite of Store: what every implementation promises. A new one adds a line to the instantiation.
#include "store/store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "store/memory_store.h"
#include "store/private_folder.h"
#include "store/store_client.h"
#include "store/store_server.h"
#include "store/tcp_address.h"

namespace ronde::store {
namespace {

using testing::HasSubstr;

/// A place where ranks meet; each rank's thread asks for a store of its own.
class Bed {
 public:
  virtual ~Bed() = default;
  virtual std::shared_ptr<Store> store() = 0;
};

class MemoryBed final : public Bed {
 public:
  std::shared_ptr<Store> store() override { return store_; }

 private:
  std::shared_ptr<Store> store_ = std::make_shared<MemoryStore>();
};

class UnixBed final : public Bed {
 public:
  UnixBed() {
    const std::string path = folder_.path() + "/store";
    server_ = StoreServer::start(listen_unix(path).value(), key_).value();
  }
  std::shared_ptr<Store> store() override {
    Result<std::unique_ptr<Store>> store = connect_store("unix:" + folder_.path() + "/store", key_, 60 * kSecond);
    EXPECT_TRUE(store) << store.status().message();
    return std::move(store).value();
  }

 private:
  PrivateFolder folder_ = PrivateFolder::create().value();
  JobKey key_ = make_job_key().value();
  std::unique_ptr<StoreServer> server_;
};

class TcpBed final : public Bed {
 public:
  TcpBed() {
    UniqueFd listener = listen_tcp({"127.0.0.1", 0}).value();
    address_ = "tcp:127.0.0.1:" + std::to_string(port_of(listener.get()).value());
    server_ = StoreServer::start(std::move(listener), key_).value();
  }
  std::shared_ptr<Store> store() override {
    Result<std::unique_ptr<Store>> store = connect_store(address_, key_, 60 * kSecond);
    EXPECT_TRUE(store) << store.status().message();
    return std::move(store).value();
  }

 private:
  JobKey key_ = make_job_key().value();
  std::string address_;
  std::unique_ptr<StoreServer> server_;
};

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Bed>()> make;
};

class StoreConformance : public testing::TestWithParam<Kind> {
 protected:
  /// Runs `body(rank, store)` on `size` threads, each with a store of its own that is connected already.
  void run(int size, const std::function<void(int, Store&)>& body) {
    std::vector<std::shared_ptr<Store>> stores;
    for (int rank = 0; rank < size; ++rank) {
      stores.push_back(bed_->store());
    }
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] { body(rank, *stores[static_cast<std::size_t>(rank)]); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  std::unique_ptr<Bed> bed_ = GetParam().make();
};

Value number(int value) { return {{static_cast<std::byte>(value)}, {}}; }

TEST_P(StoreConformance, EveryRankGetsAllValuesInRankOrder) {
  for (const int size : {1, 2, 3, 5, 8}) {
    run(size, [&](int rank, Store& store) {
      for (int round = 0; round < 20; ++round) {
        Result<std::vector<Value>> all =
            store.exchange("init/" + std::to_string(round % 2), rank, size, number(rank + round), 60 * kSecond);
        ASSERT_TRUE(all) << all.status().message();
        ASSERT_EQ(all->size(), static_cast<std::size_t>(size));
        for (int peer = 0; peer < size; ++peer) {
          EXPECT_EQ(all.value()[static_cast<std::size_t>(peer)].bytes[0], static_cast<std::byte>(peer + round));
        }
      }
    });
  }
}

TEST_P(StoreConformance, CarriesEmptyAndLargestValues) {
  run(3, [](int rank, Store& store) {
    Value value;
    value.bytes.resize(rank == 1 ? 0 : kMaxValueBytes, static_cast<std::byte>(rank));
    Result<std::vector<Value>> all = store.exchange("s", rank, 3, std::move(value), 60 * kSecond);
    ASSERT_TRUE(all) << all.status().message();
    EXPECT_EQ(all.value()[0].bytes.size(), kMaxValueBytes);
    EXPECT_EQ(all.value()[1].bytes.size(), 0u);
    EXPECT_EQ(all.value()[2].bytes, std::vector<std::byte>(kMaxValueBytes, std::byte{2}));
  });
}

TEST_P(StoreConformance, GivesEachRankDescriptorsOfItsOwn) {
  if (std::string(GetParam().name) == "tcp") {
    Value value;
    value.descriptors.emplace_back(::memfd_create("value", MFD_CLOEXEC));
    EXPECT_THAT(bed_->store()->exchange("s", 0, 1, std::move(value), kSecond).status().message(),
                HasSubstr("cannot share memory"));
    return;
  }
  run(3, [](int rank, Store& store) {
    Value value;
    for (std::size_t i = 0; i < kMaxDescriptors; ++i) {
      value.descriptors.emplace_back(::memfd_create("value", MFD_CLOEXEC));
      ASSERT_EQ(::ftruncate(value.descriptors.back().get(), 100 * (rank + 1) + static_cast<int>(i)), 0);
    }
    Result<std::vector<Value>> all = store.exchange("s", rank, 3, std::move(value), 60 * kSecond);
    ASSERT_TRUE(all) << all.status().message();
    for (int peer = 0; peer < 3; ++peer) {
      const std::vector<UniqueFd>& got = all.value()[static_cast<std::size_t>(peer)].descriptors;
      ASSERT_EQ(got.size(), kMaxDescriptors);
      for (std::size_t i = 0; i < got.size(); ++i) {
        struct stat info {};
        ASSERT_EQ(::fstat(got[i].get(), &info), 0);
        EXPECT_EQ(info.st_size, 100 * (peer + 1) + static_cast<int>(i));
        EXPECT_EQ(::fcntl(got[i].get(), F_GETFD), FD_CLOEXEC);
      }
    }
  });
}

TEST_P(StoreConformance, TimeOutNamesTheMissing) {
  run(4, [](int rank, Store& store) {
    if (rank == 1 || rank == 3) {
      return;
    }
    const Result<std::vector<Value>> all = store.exchange("init/1", rank, 4, number(rank), kSecond);
    EXPECT_EQ(all.status().code(), Code::timed_out);
    EXPECT_THAT(all.status().message(), HasSubstr("'init/1'; missing: rank 1, 3."));
  });
}

TEST_P(StoreConformance, OfTwoWhoClaimOneRankTheSecondIsRefused) {
  std::atomic<int> refused = 0;
  run(2, [&](int, Store& store) {
    const Status claim = store.exchange("s", 0, 2, number(1), 60 * kSecond).status();
    if (!claim) {
      ++refused;
      EXPECT_EQ(claim.code(), Code::invalid_argument);
      EXPECT_THAT(claim.message(), HasSubstr("rank 0 of 2 cannot join 's'"));
      EXPECT_TRUE(store.exchange("s", 1, 2, number(2), 60 * kSecond)) << "the meeting and the store stay usable";
    }
  });
  EXPECT_EQ(refused, 1);
}

TEST_P(StoreConformance, AScopeThatTimedOutCanBeTriedAgainWithAnotherSize) {
  const std::shared_ptr<Store> alone = bed_->store();
  EXPECT_EQ(alone->exchange("s", 0, 3, number(0), kMillisecond).status().code(), Code::timed_out);
  run(2, [](int rank, Store& store) { EXPECT_TRUE(store.exchange("s", rank, 2, number(rank), 60 * kSecond)); });
}

TEST_P(StoreConformance, OfOneHostClocksNeedNoComparison) {
  run(3, [](int, Store& store) {
    const Result<JobClock> clock = store.compare_clocks(60 * kSecond);
    ASSERT_TRUE(clock) << clock.status().message();
    EXPECT_EQ(clock.value().boot, boot_id());
    EXPECT_EQ(clock.value().behind, 0);
    EXPECT_EQ(clock.value().within, 0);
    EXPECT_TRUE(store.exchange("behind it", 0, 1, {}, 60 * kSecond));
  });
}

INSTANTIATE_TEST_SUITE_P(All, StoreConformance,
                         testing::Values(Kind{"memory", [] { return std::make_unique<MemoryBed>(); }},
                                         Kind{"unix", [] { return std::make_unique<UnixBed>(); }},
                                         Kind{"tcp", [] { return std::make_unique<TcpBed>(); }}),
                         [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace ronde::store
