// Where in the user's code an event came from.
#include <Python.h>

#include "recorder.h"

#include <map>
#include <set>
#include <tuple>

namespace hpu {
namespace {

// All guarded by the GIL.
std::vector<std::string> library_roots;
std::map<std::tuple<std::string, int, std::string, std::string>, int64_t> found;
std::set<std::tuple<std::string, int, std::string, std::string>> met;  // counted once for each line
constexpr size_t kMostSites = 10000;

bool in_library(const char* file) {
  if (file[0] == '<') return true;
  for (const auto& root : library_roots)
    if (std::strncmp(file, root.c_str(), root.size()) == 0) return true;
  return false;
}

struct Place {
  std::string file = "<no Python frame>";
  int line = 0;
};

// The innermost frame outside torch, this package and the standard library.
Place user_place() {
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

void note_slow(const char* kind, const char* what) {
  if (!Py_IsInitialized()) return;
  const PyGILState_STATE gil = PyGILState_Ensure();
  Place place = user_place();
  auto key = std::make_tuple(std::move(place.file), place.line, std::string(kind), std::string(what));
  const auto at = found.find(key);
  if (at != found.end())
    ++at->second;
  else if (found.size() < kMostSites)
    found.emplace(std::move(key), 1);
  PyGILState_Release(gil);
}

bool first_at_line(const char* kind, const char* what) {
  if (!Py_IsInitialized()) return true;
  const PyGILState_STATE gil = PyGILState_Ensure();
  Place place = user_place();
  auto key = std::make_tuple(std::move(place.file), place.line, std::string(kind), std::string(what));
  const bool fresh = met.size() < kMostSites && met.insert(std::move(key)).second;
  PyGILState_Release(gil);
  return fresh;
}

std::string user_line() {
  if (!Py_IsInitialized()) return "?";
  const PyGILState_STATE gil = PyGILState_Ensure();
  const Place place = user_place();
  PyGILState_Release(gil);
  return place.file + ":" + std::to_string(place.line);
}

std::vector<Site> sites() {
  std::vector<Site> out;
  for (const auto& [key, times] : found)
    out.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key), times});
  return out;
}

void reset_sites() {
  found.clear();
  met.clear();
}

void set_library_roots(std::vector<std::string> roots) { library_roots = std::move(roots); }

}  // namespace hpu
