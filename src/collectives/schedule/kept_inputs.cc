#include "collectives/schedule/kept_inputs.h"

#include <algorithm>
#include <cstdint>

namespace ronde::collectives {

namespace {

constexpr std::size_t kLeastWorthALook = std::size_t{16} << 10;

struct Extent {
  std::uintptr_t begin;
  std::uintptr_t end;
  bool is_written;
};

class Extents {
 public:
  /// `if_elsewhere`: not what is written where it is read.
  void add_read(const GatherList& list, bool if_elsewhere) {
    list.for_each(0, list.bytes(), [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t) {
      if (!if_elsewhere || from != to) {
        add(from, bytes, false);
      }
    });
  }
  /// `or_where_read`: also what is written where it is read.
  void add_written(const GatherList& list, bool or_where_read) {
    list.for_each(0, list.bytes(), [&](const std::byte* from, std::byte* to, std::size_t bytes, std::size_t) {
      if (or_where_read || from != to) {
        add(to, bytes, true);
      }
    });
  }
  /// Whether nothing is written that is read.
  bool are_apart() {
    std::sort(all_.begin(), all_.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
    std::uintptr_t read_end = 0;
    std::uintptr_t written_end = 0;
    for (const Extent& each : all_) {
      if (each.begin < (each.is_written ? read_end : written_end)) {
        return false;
      }
      std::uintptr_t& end = each.is_written ? written_end : read_end;
      end = std::max(end, each.end);
    }
    return true;
  }

 private:
  void add(const std::byte* memory, std::size_t bytes, bool is_written) {
    const auto begin = reinterpret_cast<std::uintptr_t>(memory);
    all_.push_back({begin, begin + bytes, is_written});
  }

  std::vector<Extent> all_;
};

}  // namespace

bool keeps_inputs(const Exchange& exchange, const std::vector<GatherList>& lists) {
  if (exchange.longest < kLeastWorthALook) {
    return false;
  }
  const std::size_t ranks = exchange.outgoing.size();
  const auto own = static_cast<std::size_t>(exchange.rank);
  Extents extents;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    const GatherList& to_peer = lists[exchange.one_list ? 0 : peer];
    if (exchange.outgoing[peer] > 0 && peer != own) {
      extents.add_read(to_peer, false);
    } else if (exchange.outgoing[peer] > 0) {
      extents.add_read(to_peer, true);  // what comes may be there before it is carried over
      extents.add_written(to_peer, exchange.reduces);
    }
    if (exchange.incoming[peer] > 0 && peer != own && !exchange.reduces) {
      extents.add_written(lists[exchange.one_list ? 0 : ranks + peer], true);
    }
  }
  return extents.are_apart();
}

}  // namespace ronde::collectives
