// Functions of a library that was opened at run time.
#pragma once

#include <dlfcn.h>

namespace ronde::site {

class FoundFunctions {
 public:
  /// `library`: of dlopen(), which stays open.
  explicit FoundFunctions(void* library) : library_(library) {}

  /// Points `function` to the library's of this name; null if it has none.
  template <typename Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(::dlsym(library_, name));
    has_all_ = has_all_ && function != nullptr;
  }
  /// All that find() was called for are there.
  bool has_all() const { return has_all_; }

 private:
  void* library_;
  bool has_all_ = true;
};

}  // namespace ronde::site
