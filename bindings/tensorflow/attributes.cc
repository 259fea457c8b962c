#include "attributes.h"

#include <cstring>

namespace ronde::tf {

namespace {

/// Reads attributes one by one and remembers whether one could not be read.
class Reader {
 public:
  explicit Reader(OpKernelConstruction* construction) : construction_(construction) {}

  std::int64_t integer(const char* name) {
    std::int64_t value = 0;
    if (status_.is_ok()) {
      functions().get_attr_int64(construction_, name, &value, status_.get());
    }
    return value;
  }
  std::int32_t number(const char* name) { return static_cast<std::int32_t>(integer(name)); }
  double real(const char* name) {
    const std::int64_t bits = integer(name);
    double value = 0;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  }
  std::string text(const char* name) {
    std::int32_t list = 0;
    std::int32_t bytes = 0;
    if (status_.is_ok()) {
      functions().get_attr_size(construction_, name, &list, &bytes, status_.get());
    }
    std::string value(static_cast<std::size_t>(bytes < 0 ? 0 : bytes), '\0');
    if (status_.is_ok() && !value.empty()) {
      functions().get_attr_string(construction_, name, value.data(), value.size(), status_.get());
    }
    return value;
  }

  /// Whether all could be read; if not, TensorFlow is told.
  bool finish() {
    if (!status_.is_ok()) {
      functions().construction_failure(construction_, status_.get());
    }
    return status_.is_ok();
  }

 private:
  OpKernelConstruction* construction_;
  ScopedStatus status_;
};

thread_local const char* said_name = nullptr;

}  // namespace

void say_name(const char* name) { said_name = name; }

const char* take_name() {
  const char* name = said_name;
  said_name = nullptr;
  return name;
}

ronde_request Attributes::request() const {
  ronde_request request{};
  request.struct_size = sizeof(request);
  request.op = op;
  request.group = group;
  request.name = name.empty() ? nullptr : name.data();
  request.name_bytes = name.size();
  request.reduce_op = reduce_op;
  request.root = root;
  request.prescale = prescale;
  request.postscale = postscale;
  request.call_site = call_site;
  return request;
}

std::optional<Attributes> read_attributes(OpKernelConstruction* construction) {
  Reader reader(construction);
  Attributes made;
  made.name = reader.text("tensor_name");
  made.op = reader.number("op");
  made.reduce_op = reader.number("reduce_op");
  made.root = reader.number("root");
  made.group = reader.number("group");
  made.prescale = reader.real("prescale_bits");
  made.postscale = reader.real("postscale_bits");
  made.call_site = reader.number("call_site");
  return reader.finish() ? std::optional(made) : std::nullopt;
}

std::optional<std::int64_t> read_integer(OpKernelConstruction* construction, const char* name) {
  Reader reader(construction);
  const std::int64_t value = reader.integer(name);
  return reader.finish() ? std::optional(value) : std::nullopt;
}

}  // namespace ronde::tf
