#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Prints the path of a program built from its Debian source package with frame pointers and debug
# information, made at the first call and kept in the cache: gzip, sqlite3 or zstd.
#   scripts/source-build.sh gzip|sqlite3|zstd
# Status 77: the source cannot be had. Must never print a path of something that is not complete,
# nor anything else on stdout, nor change what apt on this machine knows.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/debian.sh
. "$here/debian.sh"

suite=bookworm
flags='-O2 -g -fno-omit-frame-pointer'
program=${1:?usage: source-build.sh gzip|sqlite3|zstd}

case $program in
gzip) source=gzip built=gzip ;;
sqlite3) source=sqlite3 built=sqlite3 ;;
zstd) source=libzstd built=programs/zstd ;;
*) say "$program: there is no recipe for it"; exit 2 ;;
esac

# build: in the unpacked source
build() {
	# Timestamps of the patched files would make automake and others run again.
	case $program in
	gzip) ./configure CFLAGS="$flags" &&
		make -j2 AUTOCONF=: AUTOMAKE=: ACLOCAL=: AUTOHEADER=: MAKEINFO=: ;;
	sqlite3) ./configure --disable-tcl --disable-shared --disable-readline CFLAGS="$flags" &&
		make -j2 sqlite3 ;;
	zstd) make -j2 -C programs zstd CFLAGS="$flags" HAVE_LZMA=0 HAVE_LZ4=0 HAVE_ZLIB=0 ;;
	esac
}

# Another recipe or compiler is another program; one without its debug information is no use.
cache=$(cache_dir)
key=$({ cat "$0"; gcc --version; } | cksum | cut -d' ' -f1)
where=$cache/source-build-$program-$key
if [ -e "$where/$program" ]; then
	echo "$where/$program"
	exit 0
fi

for tool in dpkg-source make gcc; do
	command -v $tool >/dev/null || die "$tool: not found; run scripts/deps.sh test"
done
say "building $program from the source of Debian $suite (once)"
temp=$(mktemp -d "$cache/temp.XXXXXX")
trap 'rm -rf "$temp"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
# The compiler writes paths down, and the debugger is to find them: the tree keeps its place.
tree=$where.source
rm -rf "$tree"
debian_apt_init "$temp/apt" "$(dpkg --print-architecture)" "$suite"
sed 's/^deb /deb-src /' "$temp/apt/sources.list" >"$temp/sources"
mv "$temp/sources" "$temp/apt/sources.list"
(
	cd "$temp"
	apt-get -c apt/apt.conf -q update && apt-get -c apt/apt.conf -q source --download-only "$source"
) >"$temp/log" 2>&1 || {
	tail -n 5 "$temp/log" >&2
	say "SKIP: source of $source: apt-get failed, see above (is the mirror reachable?)"
	exit 77
}
if ! {
	# apt has checked the sums against its signed list.
	dpkg-source --no-check -x "$temp/$source"_*.dsc "$tree" && (cd "$tree" && build)
} >>"$temp/log" 2>&1; then
	tail -n 20 "$temp/log" >&2
	die "$program: the build failed, see above"
fi
mkdir -p "$where"
cp "$tree/$built" "$where/.$program"
rm -rf "$tree"
mv "$where/.$program" "$where/$program"
echo "$where/$program"
