#!/bin/sh
# What is needed from the system beyond Python: installs it where that is allowed.
#   tests/needs.sh        what the tests need: a real browser, bubblewrap, which confines commands, tmux, a terminal to
#                         look at, a C compiler for plugins, valgrind, which watches them, systemd, which reads units,
#                         ip, which makes networks that fail, and two proxies
#   tests/needs.sh wrk    just these programs
set -eu

as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
# Chromium without its windows draws the same with less work; not every system has it as a package of its own.
light="chromium-headless-shell"
# Proxies are unpacked beside the environment, not installed: their packages would start services on this machine.
proxies="$(cd "$(dirname "$0")/.." && pwd)/.venv/proxies"
PATH="$PATH:/usr/sbin:$proxies/usr/sbin:$proxies/usr/bin"

offered() { apt-cache show "$1" >/dev/null 2>&1; }
browser() { command -v "$light" || command -v chromium || command -v chromium-browser || command -v google-chrome; }
here() {
    case $1 in
    browser) browser ;;
    *) command -v "$1" ;;
    esac >/dev/null
}
package() {
    case $1 in
    browser) if offered "$light"; then echo "$light"; else echo chromium; fi ;;
    bwrap) echo bubblewrap ;;
    cc) echo gcc libc6-dev ;;
    ip) echo iproute2 ;;
    systemd-analyze) echo systemd ;;
    *) echo "$1" ;;
    esac
}
user() {
    case $1 in
    browser) echo "The console's tests" ;;
    bwrap) echo "The sandbox's tests" ;;
    cc) echo "The plugins' tests" ;;
    ip) echo "The tests of faults" ;;
    tmux) echo "The chat's tests" ;;
    valgrind) echo "The tests of plugins' memory, and counting," ;;
    wrk) echo "The benchmarks" ;;
    *) echo "The production guide's tests" ;;
    esac
}
install() {
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}
unpack() {
    here "$1" && return
    echo "Unpacking: $1" >&2
    mkdir -p "$proxies"
    (cd "$proxies" && { apt-get download -qq "$1" 2>/dev/null || { $as_root apt-get update -qq && apt-get download -qq "$1"; }; } &&
        dpkg -x "$1"_*.deb . && rm -f "$1"_*.deb) || lacks "$1"
}
lacks() {
    echo "$(user "$1") need $1, and it is not here: sudo apt-get install $(package "$1")" >&2
    exit 1
}

wanted="${*:-browser bwrap tmux cc valgrind systemd-analyze openssl ip}"
missing=""
for each in $wanted; do here "$each" || missing="$missing $each"; done
if [ -n "$missing" ] && command -v apt-get >/dev/null && $as_root true 2>/dev/null; then
    echo "Installing:$missing" >&2
    $as_root apt-get update -qq
    # shellcheck disable=SC2046 # one word for each package
    install $(for each in $missing; do package "$each"; done) || true
fi
for each in $wanted; do here "$each" || lacks "$each"; done
[ $# = 0 ] || exit 0

if ! here "$light" && offered "$light" && $as_root true 2>/dev/null; then
    # With another browser the tests only take longer: they do not depend on this one.
    echo "Installing: $light" >&2
    install "$light" || echo "The tests go on with $(browser)." >&2
fi
unpack nginx
unpack caddy
