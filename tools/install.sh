#!/usr/bin/env bash
# Install a package of Debian's, without leaving a service of it running: tools/install.sh PACKAGE
set -euo pipefail

if ! command -v apt-get > /dev/null; then
    echo "$1 is not installed, and there is no apt-get to install it: install it by hand." >&2
    exit 1
fi
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get -qq update
# In runlevel 1 a package's own start of its service is refused.
"${as_root[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends "$1" > /dev/null
