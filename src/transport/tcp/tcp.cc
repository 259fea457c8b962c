#include "transport/tcp/tcp.h"

#include <utility>

#include "transport/tcp/stream.h"

namespace ronde::transport {

Result<JobLinks> meet_by_tcp(store::Store& store, const JobKey& key, const std::string& scope, int rank, int size,
                             const std::string& address, const TcpOptions& options, Nanoseconds limit) {
  RONDE_ASSIGN_OR_RETURN(TcpConnections connected,
                         connect_by_tcp(store, key, scope, rank, size, address, options, limit));
  std::vector<std::unique_ptr<Pipe>> pipes;
  for (std::size_t peer = 0; peer < connected.connections.size(); ++peer) {
    TcpConnection& connection = connected.connections[peer];
    pipes.push_back(connection.is_open()
                        ? std::make_unique<Stream>(std::move(connection), static_cast<int>(peer), options.integrity)
                        : nullptr);
  }
  return links_over(std::move(pipes), std::move(connected.who), options.timeout, std::move(connected.news));
}

}  // namespace ronde::transport
