// SharedPages: memory that the processes of a measurement share, outside the engine that is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ronde::cli {

/// Shared memory that has no name and goes with its last user, zeroed. Nothing is thrown; see is_mapped().
class SharedPages {
 public:
  /// Makes it. `descriptor()` is then what others of this user open.
  static SharedPages create(std::size_t bytes);
  /// Maps what process `pid` of this machine and user has as `descriptor`.
  static SharedPages open(std::int64_t pid, std::int64_t descriptor, std::size_t bytes);
  /// Maps a file that is at least so long.
  static SharedPages open(const std::string& path, std::size_t bytes);
  SharedPages(SharedPages&& other) noexcept;
  SharedPages& operator=(SharedPages&&) = delete;
  ~SharedPages();

  bool is_mapped() const { return data_ != nullptr; }
  void* data() const { return data_; }
  int descriptor() const { return descriptor_; }

 private:
  SharedPages(int descriptor, std::size_t bytes);

  int descriptor_ = -1;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ronde::cli
