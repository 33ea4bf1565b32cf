#!/bin/sh
# What the tests need from the system beyond Python: a real browser. Installs it where that is allowed.
set -eu

browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }

browser >/dev/null && exit 0
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if command -v apt-get >/dev/null && $as_root true 2>/dev/null; then
    echo "Installing Chromium for the tests of the browser console." >&2
    $as_root apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
browser >/dev/null || {
    echo "The console's tests need a browser, and none is here: sudo apt-get install chromium" >&2
    exit 1
}
