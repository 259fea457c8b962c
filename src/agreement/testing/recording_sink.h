// A sink that writes down what the member wants done, one line each.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agreement/sink.h"

namespace ronde::agreement {

class RecordingSink final : public Sink {
 public:
  /// The lines since the last call.
  std::vector<std::string> take() { return std::exchange(lines_, {}); }

  void publish(std::uint32_t bucket, Flag flag) override { add("publish " + number(bucket) + " " + text(flag)); }
  void complete(std::uint32_t bucket, std::uint64_t instance) override {
    add("complete " + number(bucket) + " instance " + number(instance));
  }
  void voided(std::uint32_t bucket) override { add("voided " + number(bucket)); }
  void copy_in(std::uint32_t bucket, std::uint32_t place, std::uint64_t instance) override {
    add("copy_in " + number(bucket) + "." + number(place) + " instance " + number(instance));
  }
  void set_frozen(std::uint32_t epoch, Reason) override { add("frozen " + number(epoch)); }
  void send_frozen(std::uint32_t epoch, Reason) override { add("send frozen " + number(epoch)); }
  void store_quiet(const RankSet& lost) override {
    std::string line = "quiet";
    for (std::size_t i = 0; i < lost.size(); ++i) {
      line += lost[i] ? " " + number(i) : "";
    }
    add(line);
  }
  Nanoseconds send_request(control::RequestMessage message, Nanoseconds deadline) override {
    add("request " + message.name + " label " + number(message.label) + " until " +
        number(static_cast<std::uint64_t>(deadline)));
    return deadline;
  }
  void send_end(control::EndMessage message) override {
    std::string line = "end " + number(message.epoch) + " instances " + number(message.instances);
    for (std::size_t i = 0; i < message.missing.size(); ++i) {
      line += (i == 0 ? " missing " : " ") + message.missing[i];
    }
    add(line);
  }
  void send_join() override { add("join"); }
  void send_leave() override { add("leave"); }
  void settings(const control::SettingsEntry&) override { add("settings"); }
  void table(const Thresholds& thresholds) override { add("table one_shot " + number(thresholds.one_shot)); }
  void execute(std::vector<control::ExecEntry::Item> items) override {
    std::string line = "execute";
    for (const control::ExecEntry::Item& item : items) {
      line += " " + item.name;
    }
    add(line);
  }
  void launch(std::uint32_t bucket) override { add("launch " + number(bucket)); }
  void prepare(const Bucket& bucket) override { add("prepare " + number(bucket.id)); }
  void install(std::uint32_t epoch, std::span<const std::uint32_t> buckets, bool added) override {
    std::string line = (added ? "add " : "install ") + number(epoch) + ":";
    for (std::uint32_t id : buckets) {
      line += " " + number(id);
    }
    add(line);
  }
  void ended(std::uint32_t epoch) override { add("ended " + number(epoch)); }
  void retire(std::uint32_t bucket) override { add("retire " + number(bucket)); }
  void join_done(const control::JoinDoneEntry& entry) override { add("join_done " + std::to_string(entry.last)); }
  void fail(const std::string& name, Status status) override { add("fail " + name + " " + status.message()); }
  void bug(std::string_view what) override { add("bug: " + std::string(what)); }

 private:
  static std::string number(std::uint64_t value) { return std::to_string(value); }
  static std::string text(Flag flag) {
    return number(flag >> FlagWord::kInstanceBits) + "." + number(flag & kMaxInstance);
  }
  void add(std::string line) { lines_.push_back(std::move(line)); }

  std::vector<std::string> lines_;
};

}  // namespace ronde::agreement
