// A rank that is stopped, as suspend, the cgroup freezer and debuggers do it, at a chosen load or store: and what the
// others find in their memory once it goes on.
#pragma once

#include <cstddef>
#include <functional>
#include <ronde/ronde.hpp>
#include <span>
#include <string>
#include <vector>

namespace ronde::test {

/// Stops this whole process at the first load or store, by whichever thread, in the page of this address, which must
/// not be touched otherwise. Continued, it goes on with that very load or store. One at a time.
class StopsAt {
 public:
  explicit StopsAt(const void* address);
  ~StopsAt();
  StopsAt(const StopsAt&) = delete;
  StopsAt& operator=(const StopsAt&) = delete;

  /// It has stopped there.
  static bool has_stopped();
};

/// Tells the other ranks this one's process; returns all of them, by rank. All ranks.
std::vector<int> all_processes();
/// As the kernel shows it: 'R' runs, 'S' sleeps, 'T' is stopped, 'Z' is dead. Of the first thread.
char state_of(int process);
/// Waits for that; fails the test after a minute.
void wait_for_state(int process, char state);

/// The limit of the calls that cannot end.
inline constexpr double kLimit = 0.2;

/// A tensor with something before and behind it, which no operation may touch.
class Guarded {
 public:
  /// In memory that the ranks share, or in private memory; of so many elements.
  Guarded(const std::string& name, std::size_t elements, bool shared);

  std::span<float> values() { return all().subspan(kMargin, elements_); }
  /// `value` in the tensor, `rank` around it.
  void fill(float value);
  /// Fails the test if anything but `value` is in the tensor or what is around it has changed.
  void expect(float value, const std::string& what);
  void expect_margins(const std::string& what);
  /// Gives the memory back and takes as much again, which may be the same.
  void renew();

 private:
  /// Neither begins nor ends on a page, and lies alike within a line on all ranks.
  static constexpr std::size_t kMargin = 32 * 37;

  std::span<float> all();

  std::string name_;
  std::size_t elements_;
  SharedBuffer buffer_;
  std::vector<float> own_;
};

}  // namespace ronde::test
