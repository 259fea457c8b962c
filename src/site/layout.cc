#include "site/layout.h"

#include <map>

namespace ronde::site {

Layout layout_of(const std::vector<std::string>& hosts, int rank) {
  std::map<std::string, int> sizes;
  std::vector<std::string> in_order;
  Layout layout;
  const std::string& mine = hosts[static_cast<std::size_t>(rank)];
  for (std::size_t each = 0; each < hosts.size(); ++each) {
    if (static_cast<int>(each) == rank) {
      layout.local_rank = sizes[hosts[each]];
    }
    if (++sizes[hosts[each]] == 1) {
      in_order.push_back(hosts[each]);
    }
  }
  layout.local_size = sizes[mine];
  layout.cross_size = 0;
  for (const std::string& host : in_order) {
    if (host == mine) {
      layout.cross_rank = layout.cross_size;
    }
    layout.cross_size += sizes[host] > layout.local_rank ? 1 : 0;
  }
  return layout;
}

}  // namespace ronde::site
