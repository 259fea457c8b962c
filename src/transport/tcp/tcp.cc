#include "transport/tcp/tcp.h"

#include <utility>

#include "transport/tcp/stream.h"

namespace ronde::transport {

std::vector<std::unique_ptr<Pipe>> streams_over(std::vector<TcpConnection> connections, Integrity integrity) {
  std::vector<std::unique_ptr<Pipe>> pipes(connections.size());
  for (std::size_t peer = 0; peer < connections.size(); ++peer) {
    if (connections[peer].is_open()) {
      pipes[peer] = std::make_unique<Stream>(std::move(connections[peer]), static_cast<int>(peer), integrity);
    }
  }
  return pipes;
}

Result<JobLinks> meet_by_tcp(store::Store& store, const JobKey& key, const std::string& scope, int rank, int size,
                             const std::string& address, const TcpOptions& options, Nanoseconds limit) {
  RONDE_ASSIGN_OR_RETURN(TcpConnections connected,
                         connect_by_tcp(store, key, scope, rank, size, address, options, limit));
  return links_over(streams_over(std::move(connected.connections), options.integrity), std::move(connected.who),
                    options.timeout, std::move(connected.news));
}

}  // namespace ronde::transport
