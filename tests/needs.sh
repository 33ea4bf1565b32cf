#!/bin/sh
# What the tests need from the system beyond Python: a real browser, bubblewrap, which confines commands, tmux, a
# terminal to look at, a C compiler for plugins, valgrind, which watches them, systemd, which reads units, and two
# proxies. Installs them where that is allowed.
set -eu

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
# Chromium without its windows draws the same with less work; not every system has it as a package of its own.
light="chromium-headless-shell"
offered() { apt-cache show "$1" >/dev/null 2>&1; }
browser() { command -v "$light" || command -v chromium || command -v chromium-browser || command -v google-chrome; }
missing=""
browser >/dev/null || missing="chromium"
command -v bwrap >/dev/null || missing="$missing bubblewrap"
command -v tmux >/dev/null || missing="$missing tmux"
command -v cc >/dev/null || missing="$missing gcc libc6-dev"
command -v valgrind >/dev/null || missing="$missing valgrind"
command -v systemd-analyze >/dev/null || missing="$missing systemd"
command -v openssl >/dev/null || missing="$missing openssl"

# Proxies are unpacked beside the environment, not installed: their packages would start services on this machine.
proxies="$(cd "$(dirname "$0")/.." && pwd)/.venv/proxies"
PATH="$PATH:/usr/sbin:$proxies/usr/sbin:$proxies/usr/bin"
unpack() {
    command -v "$1" >/dev/null && return
    echo "Unpacking for the tests: $1" >&2
    mkdir -p "$proxies"
    (cd "$proxies" && { apt-get download -qq "$1" 2>/dev/null || { $as_root apt-get update -qq && apt-get download -qq "$1"; }; } &&
        dpkg -x "$1"_*.deb . && rm -f "$1"_*.deb) ||
        { echo "The tests of the production guide need $1, and it is not here: sudo apt-get install $1" >&2; exit 1; }
}

if ! command -v "$light" >/dev/null && offered "$light" && browser >/dev/null && $as_root true 2>/dev/null; then
    # With another browser the tests only take longer: they do not depend on this one.
    echo "Installing for the tests: $light" >&2
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "$light" >/dev/null ||
        echo "The tests go on with $(browser)." >&2
fi
if [ -z "$missing" ]; then
    unpack nginx
    unpack caddy
    exit 0
fi
if command -v apt-get >/dev/null && $as_root true 2>/dev/null; then
    echo "Installing for the tests: ${missing# }" >&2
    $as_root apt-get update -qq
    [ "${missing#chromium}" = "$missing" ] || ! offered "$light" || missing="$light${missing#chromium}"
    # shellcheck disable=SC2086 # one word for each package
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
needed() {
    "$1" >/dev/null 2>&1 || {
        echo "$2 need $3, and it is not here: sudo apt-get install $3" >&2
        exit 1
    }
}
has_bwrap() { command -v bwrap; }
has_tmux() { command -v tmux; }
has_cc() { command -v cc; }
has_valgrind() { command -v valgrind; }
has_systemd() { command -v systemd-analyze; }
has_openssl() { command -v openssl; }
needed browser "The console's tests" chromium
needed has_bwrap "The sandbox's tests" bubblewrap
needed has_tmux "The chat's tests" tmux
needed has_cc "The plugins' tests" gcc
needed has_valgrind "The tests of plugins' memory" valgrind
needed has_systemd "The production guide's tests" systemd
needed has_openssl "The production guide's tests" openssl
unpack nginx
unpack caddy
