// A forked child has copies of its parent's descriptors: a connection stays open while any of them does, so that the
// peers of a rank that dies would hear of it only when its last child (a worker that loads data, say) has ended too.
#pragma once

namespace ronde {

/// While this lives, children of fork() do not get the connection of this descriptor; its number stays taken in them.
/// Not for children of vfork() and posix_spawn(), which have other programs' lives. Any thread.
class KeptFromForkedChildren {
 public:
  explicit KeptFromForkedChildren(int fd);
  ~KeptFromForkedChildren();
  KeptFromForkedChildren(const KeptFromForkedChildren&) = delete;
  KeptFromForkedChildren& operator=(const KeptFromForkedChildren&) = delete;

 private:
  const int fd_;
};

}  // namespace ronde
