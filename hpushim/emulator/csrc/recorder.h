// The ledger's C++ side.
#pragma once

#include "graphs.h"

namespace hpu {

void mark_step();
void end_graph(const char* why);  // what ended it: mark_step, a host sync, a collective …
Causes recompilation_causes();
void reset_books();
void record_graphs(bool on, bool lazy);
void watch_compute();          // count compute operators wherever they run
int64_t compute_elsewhere();   // those that did not run on hpu; -1 when not watched
std::string first_compute_elsewhere();  // "aten::mm at train.py:12", or nothing
void forget_first_compute();
extern std::atomic<bool> trace_on;

// sites.cpp
struct Site {
  std::string file;
  int line;
  std::string kind, what;
  int64_t count, bytes;
};
struct Sites {
  std::vector<Site> kept;
  int64_t left_out;  // events at further lines
};
Sites sites();
std::pair<std::string, int> user_place();  // file and line; nothing and 0 when sites are not wanted
std::vector<Site> first_lines();  // what was counted once for each line, also when sites are not wanted
void reset_sites();
void set_library_roots(std::vector<std::string> roots);

}  // namespace hpu
