// The device's locks, and Python's.
//
// The device's locks are leaves: who holds one takes no other lock, neither a second leaf nor Python's. So no order
// among them can be wrong, and a fork can take them all. A build with HPU_CHECK_LOCKS ends the process where the rule
// is broken (tests/emulator/sanitized.py makes one).
#pragma once

#include <mutex>

namespace hpu {

class Leaf {
 public:
  explicit Leaf(const char* name);  // lives as long as the process
  Leaf(const Leaf&) = delete;
  Leaf& operator=(const Leaf&) = delete;
  void lock();
  void unlock();
  const char* name() const { return name_; }

 private:
  friend struct AllLeaves;
  std::mutex mutex_;
  const char* name_;
  Leaf* next_;  // in the list of all, which a fork takes
};

using Hold = std::lock_guard<Leaf>;

void watch_locks_at_forks();

// Python's lock, for as long as this object lives. Not had once Python is ending: a thread that asked for it then would
// never come back.
class Gil {
 public:
  Gil();
  ~Gil();
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;
  explicit operator bool() const { return held_; }

 private:
  int state_ = 0;
  bool held_ = false;
};

// The opposite: Python's lock is let go of for as long as this object lives, if this thread has it.
class WithoutGil {
 public:
  WithoutGil();
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  void* state_ = nullptr;
};

}  // namespace hpu
