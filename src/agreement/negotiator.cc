#include "agreement/negotiator.h"

#include "agreement/sink.h"

namespace ronde::agreement {

namespace {

/// Keeps what the learning lane wants done. Anything of replay is a bug: the coordinator was given no heap.
class Collector final : public Sink {
 public:
  std::optional<control::RequestMessage> request;
  std::vector<control::ExecEntry::Item> items;
  std::vector<std::pair<std::string, Status>> failed;
  std::optional<control::SettingsEntry> new_settings;
  Status wrong;

  void send_request(control::RequestMessage message, Nanoseconds) override { request = std::move(message); }
  void settings(const control::SettingsEntry& entry) override { new_settings = entry; }
  void execute(std::vector<control::ExecEntry::Item> agreed) override { items = std::move(agreed); }
  void fail(const std::string& name, Status status) override { failed.emplace_back(name, std::move(status)); }
  void bug(std::string_view what) override { wrong = Status::error(Code::internal, std::string(what)); }

  void publish(std::uint32_t, Flag) override { unexpected(); }
  void reduce(std::uint32_t, Flag) override { unexpected(); }
  void set_done(std::uint32_t, Flag) override { unexpected(); }
  void complete(std::uint32_t, std::uint64_t) override { unexpected(); }
  void copy_in(std::uint32_t, std::uint32_t, std::uint64_t) override { unexpected(); }
  void set_frozen(std::uint32_t, Reason) override { unexpected(); }
  void store_quiet(const RankSet&) override { unexpected(); }
  void send_end(control::EndMessage) override { unexpected(); }
  void send_join() override { unexpected(); }
  void send_leave() override { unexpected(); }
  void prepare(const Bucket&) override { unexpected(); }
  void install(std::uint32_t, std::span<const std::uint32_t>, bool) override { unexpected(); }
  void ended(std::uint32_t) override { unexpected(); }
  void retire(std::uint32_t) override { unexpected(); }
  void join_done(int) override { unexpected(); }

 private:
  void unexpected() { bug("a plan came to a rank that only learns"); }
};

}  // namespace

Status Negotiator::on_submit(const std::string& name, Descriptor descriptor, Nanoseconds deadline, Nanoseconds timeout,
                             std::optional<control::RequestMessage>& message) {
  Collector done;
  member_.step(Submit{name, std::move(descriptor), deadline}, done);
  RONDE_RETURN_IF_ERROR(done.wrong);
  if (!done.failed.empty()) {
    return done.failed.front().second;
  }
  message = std::move(done.request);
  message->timeout = timeout;
  return {};
}

Result<Negotiator::Outcome> Negotiator::on_log(const control::Message& entry) {
  Collector done;
  member_.step(LogRead{entry}, done);
  for (const control::ExecEntry::Item& item : done.items) {
    member_.step(Executed{item.name}, done);
  }
  if (!done.wrong) {
    return done.wrong;
  }
  return Outcome{std::move(done.items), std::move(done.failed), done.new_settings};
}

std::vector<std::string> Negotiator::close(Status reason) {
  Collector done;
  member_.step(Close{std::move(reason)}, done);
  std::vector<std::string> names;
  for (auto& [name, status] : done.failed) {
    names.push_back(name);
  }
  return names;
}

}  // namespace ronde::agreement
