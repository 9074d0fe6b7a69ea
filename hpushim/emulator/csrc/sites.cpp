// Where in the user's code an event came from.
#include <Python.h>
#include <frameobject.h>  // PyFrame_GetBack, which Python.h itself declares from 3.11 on

#include "locks.h"
#include "recorder.h"

#include <cstring>
#include <map>
#include <set>
#include <tuple>

namespace hpu {
namespace {

using Line = std::tuple<std::string, int, std::string, std::string>;  // file, line, kind, what
constexpr size_t kMostSites = 10000;

struct Tally {
  int64_t count, bytes;
};

// Guarded by the GIL; never destroyed, since threads may still note something while the process ends.
struct Noted {
  std::vector<std::string> library_roots;
  std::map<Line, Tally> found;
  std::set<Line> met;  // counted once for each line
  int64_t left_out = 0;
};

Noted& noted() {
  static auto* one = new Noted();
  return *one;
}

bool in_library(const char* file) {
  if (file[0] == '<') return true;
  for (const auto& root : noted().library_roots)
    if (std::strncmp(file, root.c_str(), root.size()) == 0) return true;
  return false;
}

struct Place {
  std::string file = "<no Python frame>";
  int line = 0;
};

// The innermost frame outside torch, this package and the standard library.
Place place_now() {
  Place place;
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  while (frame != nullptr) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const char* file = PyUnicode_AsUTF8(code->co_filename);
    if (file == nullptr) PyErr_Clear();
    if (file != nullptr && !in_library(file)) {
      place.file = file;
      place.line = PyFrame_GetLineNumber(frame);
      Py_DECREF(code);
      Py_DECREF(frame);
      return place;
    }
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  return place;
}

}  // namespace

void note_slow(const char* kind, const char* what, int64_t bytes) {
  const Gil gil;
  if (!gil) return;
  Place place = place_now();
  Line line(std::move(place.file), place.line, kind, what);
  auto& found = noted().found;
  if (const auto at = found.find(line); at != found.end()) {
    ++at->second.count;
    at->second.bytes += bytes;
  } else if (found.size() < kMostSites)
    found.emplace(std::move(line), Tally{1, bytes});
  else
    ++noted().left_out;
}

bool first_at_line(const char* kind, const char* what) {
  const Gil gil;
  if (!gil) return true;
  Place place = place_now();
  return noted().met.size() < kMostSites &&
         noted().met.emplace(std::move(place.file), place.line, kind, what).second;
}

std::string user_line() {
  const Gil gil;
  if (!gil) return "?";
  const Place place = place_now();
  return place.file + ":" + std::to_string(place.line);
}

std::pair<std::string, int> user_place() {
  if (!sites_on.load(std::memory_order_relaxed)) return {};
  const Gil gil;
  if (!gil) return {};
  Place place = place_now();
  return {std::move(place.file), place.line};
}

Sites sites() {
  Sites out{{}, noted().left_out};
  for (const auto& [line, tally] : noted().found)
    out.kept.push_back({std::get<0>(line), std::get<1>(line), std::get<2>(line), std::get<3>(line), tally.count, tally.bytes});
  return out;
}

std::vector<Site> first_lines() {
  std::vector<Site> out;
  for (const auto& line : noted().met)
    out.push_back({std::get<0>(line), std::get<1>(line), std::get<2>(line), std::get<3>(line), 1, 0});
  return out;
}

void reset_sites() {
  noted().found.clear();
  noted().met.clear();
  noted().left_out = 0;
}

void set_library_roots(std::vector<std::string> roots) { noted().library_roots = std::move(roots); }

}  // namespace hpu
