#!/bin/sh
# What `slipway` can do on a fresh checkout, before `slipway up` has installed Node.js and the packages: its help, its version, and
# the checks of `slipway doctor` that need neither. It changes nothing. `slipway` runs it with its own parameters.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)
next="Slipway is not set up yet. Run this once: $here/slipway up"
faults=0

# say STATE NAME ABOUT [TODO]
say() {
  printf '%-9s%-17s%s\n' "$1" "$2" "$3"
  [ -z "${4:-}" ] || printf '%26s%s\n' '' "$4"
  [ "$1" != fault ] || faults=1
}

# The first line that a program prints, within 10 seconds; fails when it does.
first_line() {
  limit=
  ! command -v timeout >/dev/null 2>&1 || limit="timeout 10"
  output=$($limit "$@" 2>/dev/null) || return 1
  printf '%s\n' "$output" | head -n 1
}

check_set_up() {
  node=$(first_line node --version) || node=
  npm=$(first_line npm --version) || npm=
  major=${node#v}
  if [ -z "$node" ] || [ -z "$npm" ]; then
    say fault set-up "Node.js and npm are needed once, to install the rest" "Install Node.js 20 or newer with npm, for example from https://nodejs.org."
  elif [ "${major%%.*}" -lt 20 ] || [ "${npm%%.*}" -lt 10 ]; then
    say fault set-up "Node.js $node with npm $npm is too old" "Install Node.js 20 or newer with npm 10 or newer."
  else
    say warning set-up "not done yet; it installs Node.js and packages into this folder, with Node.js $node" "slipway up"
  fi
}

check_git() {
  if version=$(first_line git --version); then say ok git "$version"
  else say fault git "git is not installed" "Install it (on Debian: apt-get install git); the platform fetches apps with it."; fi
}

check_docker() {
  if version=$(first_line docker ${SLIPWAY_DOCKER_HOST:+-H "$SLIPWAY_DOCKER_HOST"} version --format '{{.Server.Version}}'); then
    say ok docker "engine $version; after the set-up, slipway doctor also tries a build and a container"
  else
    say warning docker "no engine answers: apps run as processes, without apt and conda packages and Dockerfiles" \
      "To have them, see docs/guides/docker.md."
  fi
}

check_python() {
  found= lacking=
  for minor in 8 9 10 11 12 13 14; do
    first_line "python3.$minor" -c 'print(1)' >/dev/null || continue
    found="$found${found:+, }3.$minor"
    first_line "python3.$minor" -c 'import venv, ensurepip' >/dev/null || lacking="$lacking python3.$minor-venv"
  done
  if [ -z "$found" ]; then
    say warning python "no Python from 3.8 to 3.14 is in the PATH" "Install one (on Debian: apt-get install python3 python3-venv); only apps in containers do without."
  elif [ -n "$lacking" ]; then say warning python "Python $found; some without venv" "On Debian: apt-get install$lacking"
  else say ok python "Python $found"; fi
}

check_namespaces() {
  if first_line unshare --user --map-root-user --mount --pid --fork true >/dev/null; then
    say ok "user namespaces" "apps can be isolated from each other and from the platform's files"
  else
    say warning "user namespaces" "not available: apps that run as processes see the machine's files" \
      "See docs/guides/isolation.md for what this means and how to allow them."
  fi
}

check_disk() {
  folder=${SLIPWAY_DATA_DIR:-.}
  while [ ! -e "$folder" ]; do folder=$(dirname -- "$folder"); done
  megabytes=$(df -Pk -- "$folder" | awk 'NR == 2 { print int($4 * 1024 / 1000000) }')
  about="$((megabytes / 1000)).$((megabytes % 1000 / 100)) GB free at $folder"
  todo="Free some, or set SLIPWAY_DATA_DIR to a folder on another disk; packages and builds need room."
  if [ "$megabytes" -lt 2000 ]; then say fault disk "$about" "$todo"
  elif [ "$megabytes" -lt 10000 ]; then say warning disk "$about" "$todo"
  else say ok disk "$about"; fi
}

asked=
for word in "$@"; do
  case "$word" in -h | --help) asked=help ;; esac
done
case "$asked${1:-}" in
  help*)
    cat "$here/help.txt"
    printf '\n%s\n' "$next"
    ;;
  "")
    cat "$here/help.txt" >&2
    printf '\n%s\n' "$next" >&2
    exit 2
    ;;
  --version | -v) sed -n 's/^  "version": "\(.*\)",$/\1/p' "$here/../package.json" ;;
  doctor)
    check_set_up
    check_git
    check_docker
    check_python
    check_namespaces
    check_disk
    exit "$faults"
    ;;
  *)
    echo "$next" >&2
    exit 1
    ;;
esac
