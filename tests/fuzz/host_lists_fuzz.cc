// Lists of hosts, counts, addresses and ports, as users and batch systems write them (launch/host_list.h,
// launch/allocation.h, store/tcp_address.h, store/port_range.h).
#include "fuzz/target.h"
#include "launch/allocation.h"
#include "launch/host_list.h"
#include "store/port_range.h"
#include "store/tcp_address.h"

std::vector<std::string> ronde::fuzz::seeds() {
  return {"node1:4,node2:4",
          "node[01-12,17],gpu[1-2]x[3,5]",
          "4(x3),2",
          "node1 slots=4\nnode2:2 # two\n\n",
          "[{\"host\": \"a\", \"slots\": 2}]",
          "[fe80::1%eth0]:29500",
          "10.0.0.1:80",
          "5000-6000",
          "a\na\nb\n"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& hosts : {ronde::launch::parse_hosts(text), ronde::launch::parse_host_file(text, "the file")}) {
    if (hosts) {
      ronde::fuzz::expect(!hosts.value().empty());
      static_cast<void>(ronde::launch::fill_hosts(hosts.value(), 3));
    }
  }
  static_cast<void>(ronde::launch::expand_host_names(text));
  static_cast<void>(ronde::launch::expand_counts(text));
  static_cast<void>(ronde::store::parse_host_and_port(text));
  static_cast<void>(ronde::store::parse_port_range(text));
  return 0;
}
