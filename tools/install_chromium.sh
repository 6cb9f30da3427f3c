#!/usr/bin/env bash
# Install Debian's chromium for the tests of the pages.
set -euo pipefail

if ! command -v apt-get > /dev/null; then
    echo "chromium is not at /usr/bin/chromium, and there is no apt-get to install it: install it there." >&2
    exit 1
fi
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get -qq update
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends chromium > /dev/null
