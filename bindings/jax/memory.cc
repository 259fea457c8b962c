#include "memory.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

namespace ronde::jax {

namespace {

constexpr std::align_val_t kAlignment{64};

/// Smaller ones the C library keeps by itself.
constexpr std::size_t kLeastKept = 64 << 10;

/// Kept are as many bytes as calls have had at once, but no more than this.
constexpr std::size_t kMostKept = std::size_t{1} << 30;

class Pool {
 public:
  static Pool& instance() {
    static auto* const pool = new Pool;  // never destroyed: programs may be under way while the process exits
    return *pool;
  }

  std::byte* take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      in_use_ += bytes;
      most_in_use_ = std::max(most_in_use_, in_use_);
      const auto found = kept_.find(bytes);
      if (found != kept_.end() && !found->second.empty()) {
        std::byte* const data = found->second.back();
        found->second.pop_back();
        kept_bytes_ -= bytes;
        return data;
      }
      if (in_use_ + kept_bytes_ > most_in_use_) {
        clear();  // of other sizes: a program of other shapes has begun
      }
    }
    return static_cast<std::byte*>(::operator new(bytes, kAlignment));
  }

  void give_back(std::byte* data, std::size_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    in_use_ -= bytes;
    if (kept_bytes_ + bytes <= kMostKept) {
      try {
        kept_[bytes].push_back(data);
        kept_bytes_ += bytes;
        return;
      } catch (...) {  // no memory to keep it: it goes
      }
    }
    ::operator delete(data, kAlignment);
  }

 private:
  void clear() noexcept {
    for (const auto& [bytes, blocks] : kept_) {
      for (std::byte* const block : blocks) {
        ::operator delete(block, kAlignment);
      }
    }
    kept_.clear();
    kept_bytes_ = 0;
  }

  std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<std::byte*>> kept_;  ///< by size; guarded by mutex_, as all is
  std::size_t kept_bytes_ = 0;
  std::size_t in_use_ = 0;
  std::size_t most_in_use_ = 0;
};

}  // namespace

Memory::Memory(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
  data_ =
      bytes_ < kLeastKept ? static_cast<std::byte*>(::operator new(bytes_, kAlignment)) : Pool::instance().take(bytes_);
}

Memory::~Memory() {
  if (data_ != nullptr && bytes_ < kLeastKept) {
    ::operator delete(data_, kAlignment);
  } else if (data_ != nullptr) {
    Pool::instance().give_back(data_, bytes_);
  }
}

}  // namespace ronde::jax
