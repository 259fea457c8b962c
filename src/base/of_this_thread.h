// A value that each thread has one of, and that can be used for as long as the thread runs: calls come from exit
// handlers and from the destructors of the program's own thread_local objects too, when a thread_local of ours may be
// gone.
#pragma once

namespace ronde {

/// This thread's T for the purpose that Tag names. Freed when the thread ends; who asks later still gets one, empty,
/// which is not freed.
template <typename T, typename Tag>
T& of_this_thread() {
  static thread_local T* value = nullptr;  // trivial, so it is there until the thread's memory goes
  struct Freer {
    ~Freer() {
      delete value;
      value = nullptr;
    }
  };
  static thread_local const Freer freer;
  static_cast<void>(freer);
  if (value == nullptr) {
    value = new T;
  }
  return *value;
}

}  // namespace ronde
