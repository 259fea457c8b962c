#include "types/call_sites.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>

namespace ronde {

namespace {

constexpr std::size_t kMostBytes = 256;
constexpr std::size_t kInBlock = 256;
constexpr std::size_t kBlocks = 256;

/// Texts stay where they are, and are found without a lock: each submit looks for one.
using Block = std::array<std::atomic<const std::string*>, kInBlock>;

struct Table {
  std::mutex mutex;
  std::map<std::string, std::int32_t, std::less<>> numbers;  ///< guarded by mutex
  std::array<std::atomic<Block*>, kBlocks> blocks{};
};

Table& table() {
  static auto* const table = new Table;  // never destroyed: requests may outlive static objects
  return *table;
}

}  // namespace

std::int32_t number_of_call_site(std::string_view text) {
  text.remove_prefix(text.size() - std::min(text.size(), kMostBytes));
  Table& all = table();
  std::lock_guard lock(all.mutex);
  if (const auto known = all.numbers.find(text); known != all.numbers.end()) {
    return known->second;
  }
  const std::size_t number = all.numbers.size() + 1;
  if (number >= kBlocks * kInBlock) {
    return 0;
  }
  std::atomic<Block*>& block = all.blocks[number / kInBlock];
  if (block.load(std::memory_order_relaxed) == nullptr) {
    block.store(new Block{}, std::memory_order_release);
  }
  const auto added = all.numbers.emplace(text, static_cast<std::int32_t>(number)).first;
  (*block.load(std::memory_order_relaxed))[number % kInBlock].store(&added->first, std::memory_order_release);
  return added->second;
}

const std::string* call_site_of(std::int32_t number) {
  const auto index = static_cast<std::size_t>(number);
  if (number <= 0 || index >= kBlocks * kInBlock) {
    return nullptr;
  }
  const Block* const block = table().blocks[index / kInBlock].load(std::memory_order_acquire);
  return block != nullptr ? (*block)[index % kInBlock].load(std::memory_order_acquire) : nullptr;
}

}  // namespace ronde
