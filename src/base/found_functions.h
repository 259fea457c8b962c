// Functions, and data, of a library that was opened at run time.
#pragma once

#include <dlfcn.h>

#include <string>

namespace ronde {

class FoundFunctions {
 public:
  /// `library`: of dlopen(), which stays open.
  explicit FoundFunctions(void* library) : library_(library) {}

  /// Points `found` to what the library has of this name; null if it has nothing.
  template <typename Function>
  void find(Function*& found, const char* name) {
    found = reinterpret_cast<Function*>(::dlsym(library_, name));
    if (found == nullptr && missing_.empty()) {
      missing_ = name;
    }
  }
  /// All that find() was called for are there.
  bool has_all() const { return missing_.empty(); }
  /// The first that is not; empty if all are.
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

}  // namespace ronde
