#include "transport/arena/withdrawn_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "base/unique_fd.h"

namespace ronde::transport {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 6;

/// A heap of six pages, each full of its number, that this process and a peer have mapped, one page into a file.
class WithdrawnPagesTest : public testing::Test {
 protected:
  WithdrawnPagesTest() : memfd_(::memfd_create("withdrawn_pages_test", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(memfd_.get(), (kPages + 1) * kPage), 0);
    own_ = map();
    peers_ = map();
    for (std::size_t page = 0; page < kPages; ++page) {
      std::memset(own_ + page * kPage, static_cast<int>(page) + 1, kPage);
    }
  }
  ~WithdrawnPagesTest() override {
    ::munmap(own_, kPages * kPage);
    ::munmap(peers_, kPages * kPage);
  }

  std::byte* map() const {
    void* const mapped = ::mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_.get(), kPage);
    EXPECT_NE(mapped, MAP_FAILED);
    return static_cast<std::byte*>(mapped);
  }
  /// What this process reads after the peer has stored a 99 there.
  int after_a_late_store(std::size_t offset) {
    peers_[offset] = std::byte{99};
    return static_cast<int>(own_[offset]);
  }

  const UniqueFd memfd_;
  std::byte* own_ = nullptr;
  std::byte* peers_ = nullptr;
};

TEST_F(WithdrawnPagesTest, WholePagesAreWithdrawn) {
  WithdrawnPages pages(own_, memfd_.get(), kPage);
  EXPECT_FALSE(pages.is_withdrawn(0, kPages * kPage));
  pages.withdraw(kPage + 100, kPage);
  EXPECT_FALSE(pages.is_withdrawn(0, kPage));
  EXPECT_TRUE(pages.is_withdrawn(kPage, 1));
  EXPECT_TRUE(pages.is_withdrawn(3 * kPage - 1, 1));
  EXPECT_FALSE(pages.is_withdrawn(3 * kPage, kPage));
  EXPECT_FALSE(pages.is_withdrawn(kPage, 0));
  EXPECT_EQ(after_a_late_store(kPage), 99) << "a peer still reaches them";
}

TEST_F(WithdrawnPagesTest, ALateStoreDoesNotReachPrivatePages) {
  WithdrawnPages pages(own_, memfd_.get(), kPage);
  const std::size_t from = kPage + 100;
  const std::size_t bytes = 3 * kPage;  // a part of pages 1 and 4, all of 2 and 3
  pages.withdraw(from, bytes);
  ASSERT_TRUE(pages.make_private(from, bytes));
  EXPECT_EQ(static_cast<int>(own_[kPage]), 2) << "what lies before them in the first page stays";
  EXPECT_EQ(static_cast<int>(own_[from + bytes]), 5) << "and what lies behind them in the last";
  for (std::size_t page = 1; page <= 4; ++page) {
    own_[page * kPage + 200] = std::byte{7};
    EXPECT_EQ(after_a_late_store(page * kPage + 200), 7) << "page " << page;
  }
  EXPECT_EQ(after_a_late_store(0), 99) << "the others are shared as before";
  EXPECT_EQ(after_a_late_store(5 * kPage), 99);
  ASSERT_TRUE(pages.make_private(from, bytes)) << "again: nothing is left to do";
  EXPECT_EQ(static_cast<int>(own_[kPage + 200]), 7);
}

TEST_F(WithdrawnPagesTest, WhatIsSharedAndWithdrawnIsNotGivenBack) {
  WithdrawnPages pages(own_, memfd_.get(), kPage);
  pages.withdraw(2 * kPage, kPage);
  pages.withdraw(3 * kPage, kPage);
  ASSERT_TRUE(pages.make_private(3 * kPage, kPage));
  own_[3 * kPage] = std::byte{7};
  pages.discard(0, kPages * kPage);
  EXPECT_EQ(static_cast<int>(own_[0]), 0);
  EXPECT_EQ(static_cast<int>(own_[2 * kPage]), 3) << "a peer may store there";
  EXPECT_EQ(static_cast<int>(own_[3 * kPage]), 0) << "private: nobody else uses it";
  EXPECT_EQ(static_cast<int>(own_[5 * kPage]), 0);
}

TEST_F(WithdrawnPagesTest, OfOneProcessNothingIsMadePrivate) {
  WithdrawnPages pages(own_, -1, 0);
  pages.withdraw(0, kPage);
  EXPECT_TRUE(pages.make_private(0, kPage));
  EXPECT_EQ(after_a_late_store(0), 99);
  EXPECT_TRUE(pages.is_withdrawn(0, 1));
}

}  // namespace
}  // namespace ronde::transport
