#include "agreement/answer.h"

#include <utility>

#include "agreement/request_errors.h"

namespace ronde::agreement {

namespace {

/// Of one tensor the rows that the plan needs to know (types/plan.h). `root`: its index in the group, if the operation
/// has one. Requires: no member has joined.
std::vector<std::int64_t> rows_of(const std::vector<Descriptor>& descriptors, const Descriptor& first, std::size_t root,
                                  std::size_t tensor) {
  const std::size_t members = descriptors.size();
  const OperationTraits& operation = traits(first.kind);
  if (operation.rows == Rows::a_part) {
    return scattered_rows(first.tensors[tensor].shape.front(), static_cast<int>(members));
  }
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < members; ++i) {
    const std::int64_t own = descriptors[i].tensors[tensor].shape.front();
    if (operation.rows == Rows::all) {
      rows.push_back(own);
    } else if (operation.root == Root::to) {
      rows.resize(rows.size() + members);
      rows[i * members + root] = own;
    } else if (operation.root == Root::from && i != root) {
      rows.resize(rows.size() + members);
    } else if (descriptors[i].splits.size() == members) {
      rows.insert(rows.end(), descriptors[i].splits.begin(), descriptors[i].splits.end());
    } else {
      rows.insert(rows.end(), members, own / static_cast<std::int64_t>(members));
    }
  }
  return rows;
}

/// Where the tensor lies on each member; empty if one has none or has it in private memory, or if it is not reduced
/// there.
MemoryPlaces places_of(const std::vector<bool>& has, const std::vector<Descriptor>& descriptors,
                       const MayReduceAt& may_reduce_at) {
  MemoryPlaces places;
  for (std::size_t i = 0; i < descriptors.size(); ++i) {
    const MemoryPlace& place = descriptors[i].memory_place;
    if (!has[i] || !place.is_known()) {
      return {};
    }
    places.push_back(place);
  }
  return !may_reduce_at || may_reduce_at(places) ? places : MemoryPlaces();
}

/// Why it cannot be done while a rank has joined, with values of that one which change nothing; empty if it can. What
/// hands out rows of each rank cannot: whoever counts on a row for each would go on with too few.
std::string obstacle_to_join(const Descriptor& asked) {
  const Joined joined = traits(asked.kind).joined;
  if (joined == Joined::itself) {
    return "";
  }
  if (joined == Joined::refused) {
    return "only allreduce and barrier go on without a rank";
  }
  const bool has_no_neutral =
      (asked.reduce_op == ReduceOp::product && asked.prescale != 1.0) ||
      ((asked.reduce_op == ReduceOp::min || asked.reduce_op == ReduceOp::max) && asked.prescale < 0);
  return has_no_neutral ? "with this prescale no value is neutral" : "";
}

/// Whether members that know how they came to make this call say different things (types/request.h). Members that do
/// not know agree with all; once the order is lost they have made the call by themselves.
bool differ_in_order(const HeldRequest& held, bool has_lost_order) {
  std::int32_t known = 0;
  for (std::size_t i = 0; i < held.descriptors.size(); ++i) {
    std::int32_t tag = held.has[i] ? held.descriptors[i].tag : 0;
    tag = tag == 0 && held.has[i] && has_lost_order ? kOwnOrder : tag;
    if (tag != 0 && known != 0 && tag != known) {
      return true;
    }
    known = tag != 0 ? tag : known;
  }
  return false;
}

}  // namespace

Answer answer_to(const Group& group, const std::string& name, const HeldRequest& held,
                 const MayReduceAt& may_reduce_at, bool has_lost_order) {
  const Descriptor& first = held.first_descriptor();
  std::vector<int> joined;
  for (std::size_t i = 0; i < held.descriptors.size(); ++i) {
    if (!held.has[i]) {
      joined.push_back(group.ranks[i]);
    } else if (const std::string what = disagreement(first, held.descriptors[i]); !what.empty()) {
      return {.mismatch = disagreement_text(group, name, held, what)};
    }
  }
  if (differ_in_order(held, has_lost_order)) {
    return {.mismatch = disagreement_text(group, name, held, kOrder), .loses_order = true};
  }
  if (const std::string obstacle = joined.empty() ? "" : obstacle_to_join(first); !obstacle.empty()) {
    return {.mismatch = joined_text(name, first, joined, obstacle)};
  }
  control::ExecEntry::Item item{name};
  item.places = places_of(held.has, held.descriptors, may_reduce_at);
  for (std::size_t tensor = 0; makes_outputs(first.kind) && tensor < first.tensors.size(); ++tensor) {
    const auto root = static_cast<std::size_t>(has_root(first.kind) ? group.index_of(first.root) : 0);
    item.rows.push_back(rows_of(held.descriptors, first, root, tensor));
  }
  if (!joined.empty()) {
    item.descriptor = first;
  }
  return {.item = std::move(item)};
}

}  // namespace ronde::agreement
