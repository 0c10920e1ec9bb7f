# Shared by the scripts of this folder: the repository root as working folder, timed parts.
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "${BASH_SOURCE[0]}")/.."

model_cache="${XDG_CACHE_HOME:-${HOME:?is not set; set it or XDG_CACHE_HOME}/.cache}/zonda-models"
smollm2="$model_cache/SmolLM2-135M-Instruct.Q4_1.gguf"
jobs=$(nproc)
timings=()

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# part NAME COMMAND...: runs the command under a heading and keeps its wall time for print_timings.
part() {
  local name=$1 start=$SECONDS
  shift
  say "== $name"
  "$@"
  timings+=("$(printf '%-28s %5s min' "$name" "$(minutes $((SECONDS - start)))")")
}

minutes() { printf '%d:%02d' $(($1 / 60)) $(($1 % 60)); }

print_timings() {
  say "== minutes by part"
  printf '   %s\n' "${timings[@]}" >&2
  say "   $(printf '%-28s %5s min' total "$(minutes $SECONDS)")"
}

# configure PRESET: one of CMakePresets.json; a no-op when nothing changed.
configure() {
  local log=build/configure-$1.log
  mkdir -p build
  if ! cmake --preset "$1" >"$log" 2>&1; then
    cat "$log" >&2
    die "cmake failed for preset $1"
  fi
}
