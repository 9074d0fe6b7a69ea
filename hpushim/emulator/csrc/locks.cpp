#include <Python.h>

#include "locks.h"

#include <atomic>
#include <pthread.h>

#ifdef HPU_CHECK_LOCKS
#include <cstdio>
#include <cstdlib>
#endif

namespace hpu {

namespace {

std::atomic<Leaf*> first_leaf{nullptr};

#ifdef HPU_CHECK_LOCKS
thread_local const Leaf* held_leaf = nullptr;

void must_hold_no_leaf(const char* wanted) {
  if (held_leaf == nullptr) return;
  std::fprintf(stderr, "lock order: %s was asked for while %s is held\n", wanted, held_leaf->name());
  std::abort();
}
#endif

bool python_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return !Py_IsInitialized() || Py_IsFinalizing();
#else
  return !Py_IsInitialized() || _Py_IsFinalizing();
#endif
}

}  // namespace

Leaf::Leaf(const char* name) : name_(name), next_(first_leaf.load()) {
  while (!first_leaf.compare_exchange_weak(next_, this)) {
  }
}

void Leaf::lock() {
#ifdef HPU_CHECK_LOCKS
  must_hold_no_leaf(name_);
#endif
  mutex_.lock();
#ifdef HPU_CHECK_LOCKS
  held_leaf = this;
#endif
}

void Leaf::unlock() {
#ifdef HPU_CHECK_LOCKS
  held_leaf = nullptr;
#endif
  mutex_.unlock();
}

// A child of a fork has one thread: a lock that another one held would stay held.
struct AllLeaves {
  static void lock() {
    for (Leaf* leaf = first_leaf.load(); leaf != nullptr; leaf = leaf->next_) leaf->mutex_.lock();
  }
  static void unlock() {
    for (Leaf* leaf = first_leaf.load(); leaf != nullptr; leaf = leaf->next_) leaf->mutex_.unlock();
  }
};

void watch_locks_at_forks() { pthread_atfork(&AllLeaves::lock, &AllLeaves::unlock, &AllLeaves::unlock); }

Gil::Gil() {
#ifdef HPU_CHECK_LOCKS
  must_hold_no_leaf("Python's lock");
#endif
  if (python_is_ending() && !PyGILState_Check()) return;
  state_ = static_cast<int>(PyGILState_Ensure());
  held_ = true;
}

Gil::~Gil() {
  if (held_) PyGILState_Release(static_cast<PyGILState_STATE>(state_));
}

WithoutGil::WithoutGil() {
  if (!python_is_ending() && PyGILState_Check()) state_ = PyEval_SaveThread();
}

WithoutGil::~WithoutGil() {
  if (state_ != nullptr) PyEval_RestoreThread(static_cast<PyThreadState*>(state_));
}

}  // namespace hpu
