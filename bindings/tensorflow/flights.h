// Requests under way: each has a ticket of the engine, the tensors whose memory it uses, and a token by which the
// operation that waits for it finds it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <ronde/ronde.h>

#include "failures/failures.h"
#include "tf_c_api.h"

namespace ronde::tf {

/// How a request ended.
using Outcome = bindings::Failure;

/// One request under way. Owns its ticket and a reference to each of its tensors; both go with it, the tensors after
/// the ticket, whose release waits until the engine touches them no more.
class Flight {
 public:
  explicit Flight(std::string name) : name_(std::move(name)) {}
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  ~Flight();

  /// Keeps the tensor, whose reference becomes the flight's, until the request has ended.
  void keep(Tensor* tensor) { tensors_.push_back(tensor); }

  /// Hands the request in. RONDE_OK, or what ronde_submit() answers.
  ronde_status submit(const ronde_request& request);

  /// Waits as ronde_wait() does, signals apart. Any thread; the name is free afterwards if it is done.
  ronde_status wait(double limit_s);

  bool is_done() const;
  /// Gives the tensors back before the flight ends. Requires: is_done().
  void drop_tensors();

  /// How it ended, once it is done.
  Outcome outcome() const;

  const std::string& name() const { return name_; }
  ronde_ticket* ticket() const { return ticket_; }

 private:
  std::string name_;  ///< empty: an unnamed call
  ronde_ticket* ticket_ = nullptr;
  std::vector<Tensor*> tensors_;
};

/// The flights of the process. Threads of TensorFlow and of Python use it at the same time.
class FlightTable {
 public:
  static FlightTable& instance();

  /// Submits a request and keeps it until take(). *token, which is positive, says which it is. A name that is taken by
  /// a request which nobody has waited for (a step was given up between its beginning and its end) is waited for first,
  /// for a second.
  ronde_status submit(std::shared_ptr<Flight> flight, const ronde_request& request, std::int64_t* token);

  /// The flight of this token, null if there is none; it stays.
  std::shared_ptr<Flight> find(std::int64_t token);
  /// The same; it leaves the table.
  std::shared_ptr<Flight> take(std::int64_t token);

 private:
  std::shared_ptr<Flight> find_name(const std::string& name);

  std::mutex mutex_;
  std::unordered_map<std::int64_t, std::shared_ptr<Flight>> flights_;
  std::int64_t last_token_ = 0;
};

}  // namespace ronde::tf
