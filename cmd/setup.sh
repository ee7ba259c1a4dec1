#!/bin/sh
# Installs the Debian packages named as arguments that are missing. Without
# apt it says what to install, and fails only if something is missing.
set -eu

command -v "${GO:-go}" >/dev/null 2>&1 || {
	echo "setup: Go is not installed; get Go 1.26 or later from https://go.dev/dl/" >&2
	exit 1
}

# What the build itself needs, whoever installed it.
ready() {
	command -v gcc >/dev/null 2>&1 && command -v curl >/dev/null 2>&1 &&
		command -v pkg-config >/dev/null 2>&1 && pkg-config --exists libzmq
}

ready && exit 0

if ! command -v apt-get >/dev/null 2>&1; then
	echo "setup: this system has no apt-get. Please install gcc, pkg-config, curl and the" >&2
	echo "development files of ZeroMQ 4 (libzmq: zeromq-devel, zeromq or similar), then try again." >&2
	exit 1
fi

root=""
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null 2>&1 || {
		echo "setup: needs root for: apt-get install $*" >&2
		exit 1
	}
	root=sudo
fi
echo "setup: installing $*"
$root apt-get update -qq
$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null

ready || {
	echo "setup: installed $*, but gcc, curl or libzmq is still not found" >&2
	exit 1
}
