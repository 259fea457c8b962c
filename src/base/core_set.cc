#include "base/core_set.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

#include "base/cgroup.h"

namespace ronde {

namespace {

constexpr std::size_t kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;

/// The hardware threads that share the core's execution units, as a text that is the same for all of them.
std::string siblings_of(int core) {
  return read_file("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/thread_siblings_list");
}

}  // namespace

CoreSet CoreSet::of_this_thread() {
  CoreSet set;
  // A machine may have more processors than a cpu_set_t: the kernel then says EINVAL and wants a larger one.
  for (std::size_t processors = CPU_SETSIZE; processors <= std::size_t{1} << 20; processors *= 2) {
    set.words_.assign(processors / kBitsPerWord, 0);
    if (::sched_getaffinity(0, processors / CHAR_BIT, reinterpret_cast<cpu_set_t*>(set.words_.data())) == 0) {
      return set;
    }
    if (errno != EINVAL) {
      break;
    }
  }
  return {};
}

CoreSet CoreSet::of(const std::vector<int>& cores) {
  CoreSet set;
  for (const int core : cores) {
    const auto bit = static_cast<std::size_t>(core);
    set.words_.resize(std::max(set.words_.size(), bit / kBitsPerWord + 1));
    set.words_[bit / kBitsPerWord] |= 1UL << bit % kBitsPerWord;
  }
  return set;
}

bool CoreSet::apply() const {
  return ::sched_setaffinity(0, words_.size() * sizeof(unsigned long),
                             reinterpret_cast<const cpu_set_t*>(words_.data())) == 0;
}

std::vector<int> CoreSet::cores() const {
  std::vector<int> cores;
  for (std::size_t bit = 0; bit < words_.size() * kBitsPerWord; ++bit) {
    if ((words_[bit / kBitsPerWord] >> bit % kBitsPerWord & 1UL) != 0) {
      cores.push_back(static_cast<int>(bit));
    }
  }
  return cores;
}

std::vector<int> two_apart(const std::vector<int>& cores) {
  if (cores.size() < 2) {
    return {};
  }
  const std::string of_first = siblings_of(cores.front());
  const auto other =
      std::find_if(cores.begin() + 1, cores.end(), [&](int core) { return siblings_of(core) != of_first; });
  return {cores.front(), other == cores.end() ? cores[1] : *other};
}

}  // namespace ronde
