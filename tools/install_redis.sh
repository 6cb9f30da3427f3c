#!/usr/bin/env bash
# Install Debian's redis-server, without leaving a service of it running.
set -euo pipefail

if ! command -v apt-get > /dev/null; then
    echo "redis-server is not installed, and there is no apt-get to install it: install Redis 7.0 or later." >&2
    exit 1
fi
as_root=()
[ "$(id -u)" = 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get -qq update
# In runlevel 1 the package's own start of the service is refused.
"${as_root[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends redis-server > /dev/null
