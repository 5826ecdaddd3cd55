#!/usr/bin/env bash
# Installs the build that CREMA_BUILD_DIR names in its folder tests/installed, for the tests that source installed.sh.
set -euo pipefail
installed=${CREMA_BUILD_DIR:?names the build folder to install}/tests/installed
rm -rf -- "$installed"
cmake --install "$CREMA_BUILD_DIR" --prefix "$installed"
