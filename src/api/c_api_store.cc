// The C interface: a store for jobs that no launcher has started.
#include <memory>
#include <string>
#include <utility>

#include "api/guard.h"
#include "base/job_key.h"
#include "store/private_folder.h"
#include "store/store_server.h"

using namespace ronde;       // NOLINT: this file is the seam of the whole project
using namespace ronde::api;  // NOLINT

/// The server goes before the folder that its socket lies in.
struct ronde_store {
  store::PrivateFolder folder;
  std::string address;
  std::string key;
  std::unique_ptr<store::StoreServer> server;
};

ronde_status ronde_store_open(ronde_store** store, const char** address, const char** key) {
  return guarded([&]() -> Status {
    if (store == nullptr || address == nullptr || key == nullptr) {
      return null_argument("store, address or key");
    }
    RONDE_ASSIGN_OR_RETURN(const JobKey secret, make_job_key());
    RONDE_ASSIGN_OR_RETURN(store::PrivateFolder folder, store::PrivateFolder::create());
    const std::string path = folder.path() + "/store";
    RONDE_ASSIGN_OR_RETURN(UniqueFd listener, store::listen_unix(path));
    RONDE_ASSIGN_OR_RETURN(std::unique_ptr<store::StoreServer> server,
                           store::StoreServer::start(std::move(listener), secret, {}, store::listen_beside(path)));
    Process::instance().watch_forks();  // a child must not end what its parent serves
    *store = new ronde_store{std::move(folder), "unix:" + path, to_hex(secret), std::move(server)};
    *address = (*store)->address.c_str();
    *key = (*store)->key.c_str();
    return {};
  });
}

ronde_status ronde_store_close(ronde_store* store) {
  return guarded([&]() -> Status {
    delete store;
    return {};
  });
}
