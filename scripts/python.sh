#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Prints how to start a Python interpreter that tests run on, in one line: "ROOT PATH", where PATH
# is below ROOT and is to be run by chroot; or "- PATH", one of this machine's own root. Made at the
# first call and kept in the cache.
#   scripts/python.sh NAME | --list | --cached NAME | --arch s390x NAME
#     debian-3.9 -3.11 -3.13 -3.14 -3.15   Debian's own: 3.11 is the machine's, the others unpacked;
#                                          beside 3.15 are its debug files and those of libc
#     debug-3.9 -3.11 -3.13 -3.14 -3.15    Debian's Py_DEBUG builds; with frame pointers from 3.13
#     embed-3.14                           a small program that has libpython3.14.so.1.0
#     pypy-3.11                            PyPy
#     pyenv-X.Y                            of ~/.pyenv/versions, where it is there
#     fp-3.9 -3.11 -3.13 -3.14             from Debian's source, with frame pointers and DWARF
#     ft-3.13 -3.14 -3.15                  the same, free-threaded
# --list: the names; --cached: status 77 rather than a build from source. --arch s390x: what is told
# is a tree for a machine of that kind (scripts/vm.sh), the interpreter of debian-3.9 and so on in it
# with its library alone; nothing of it is run here.
# Status 77: it cannot be had. Must never print the path of something that is not complete, nor
# anything else on stdout.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/debian.sh
. "$here/debian.sh"

libs='libc6 libgcc-s1 libstdc++6 libexpat1 zlib1g libssl3t64 libbz2-1.0 libffi8 liblzma5
	libncursesw6 libtinfo6 libreadline8t64 libsqlite3-0 libuuid1 libzstd1'
old_libs='libc6 libc-bin libgcc-s1 libcrypt1 libexpat1 zlib1g libssl1.1 libbz2-1.0 libffi7 liblzma5
	libncursesw6 libtinfo6 libreadline8 libsqlite3-0 libuuid1 libmpdec3'
host_libs='libc6 libgcc-s1 libcrypt1 libexpat1 zlib1g libssl3 libbz2-1.0 libffi8 liblzma5
	libncursesw6 libtinfo6 libreadline8 libsqlite3-0 libuuid1 libnsl2 libtirpc3'

cached='' arch=''
skip() { say "SKIP: $python: $1"; exit 77; }

# packages VERSION: what Debian makes of one interpreter
packages() { echo "python$1 python$1-minimal libpython$1-minimal libpython$1-stdlib"; }
debug() { echo "$(packages "$1") python$1-dbg libpython$1-dbg"; }

# tree_of WHICH: prints its root. 3.14 and 3.15 share one, so that one can exec the other.
tree_of() {
	# shellcheck disable=SC2046,SC2086 # lists
	case $1 in
	old) "$here/debian-tree.sh" bullseye $old_libs $(packages 3.9) ;;
	stable) "$here/debian-tree.sh" trixie $libs $(packages 3.13) ;;
	debug-3.9) "$here/debian-tree.sh" bullseye $old_libs $(debug 3.9) ;;
	debug-3.11) "$here/debian-tree.sh" bookworm $host_libs $(debug 3.11) ;;
	debug-3.13) "$here/debian-tree.sh" trixie $libs $(debug 3.13) ;;
	debug-3.14) "$here/debian-tree.sh" sid $libs $(debug 3.14) ;;
	new) "$here/debian-tree.sh" sid $libs libc6-dbg $(packages 3.14) libpython3.14 $(debug 3.15) \
		python3-greenlet ;;
	pypy) "$here/debian-tree.sh" sid $libs libc-bin pypy3 pypy3-lib libgdbm6t64 ;;
	esac
}

in_tree() { # TREE PATH
	root=$(tree_of "$1") || exit $?
	echo "$root $2"
}

# Another machine's, as small as it can be: it is that machine's initial file system.
foreign() { # SUITE VERSION LIBRARY...
	suite=$1 version=$2
	shift 2
	# shellcheck disable=SC2046 # a list
	root=$("$here/debian-tree.sh" --arch "$arch" "$suite" "$@" $(packages "$version")) || exit $?
	echo "$root /usr/bin/python$version"
}

# A program that embeds: its name says nothing, its interpreter is in a library.
embed() {
	root=$(tree_of new) || exit $?
	program=usr/local/bin/embedder
	if [ ! -e "$root/$program" ]; then
		mkdir -p "$root/usr/local/bin"
		temp=$(mktemp -d "$cache/temp.XXXXXX")
		trap 'rm -rf "$temp"' EXIT
		cat >"$temp/embedder.c" <<-'EOF'
			int Py_BytesMain(int argc, char **argv);
			int main(int argc, char **argv) { return Py_BytesMain(argc, argv); }
		EOF
		lib=$(echo "$root"/usr/lib/*/libpython3.14.so.1.0)
		# What the library itself needs is not this machine's.
		gcc -O2 -g "$temp/embedder.c" "$lib" -Wl,--allow-shlib-undefined -o "$temp/embedder" >&2
		mv "$temp/embedder" "$root/$program"
	fi
	echo "$root /$program"
}

pyenv() { # VERSION
	for path in "${HOME:-/nonexistent}/.pyenv/versions/$1."*/bin/python"$1"; do
		[ ! -x "$path" ] || { echo "- $path"; return; }
	done
	skip "there is none in ~/.pyenv"
}

# ---- from source --------------------------------------------------------------------------------

flags='-g -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer'
configure='--without-ensurepip --without-doc-strings --disable-test-modules'
# What takes long to build and what no test needs; configure of 3.11 and later listens.
for module in _decimal _codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _ssl \
	_hashlib _sqlite3 _tkinter _curses _curses_panel _dbm _gdbm readline; do
	configure="$configure py_cv_module_$module=n/a"
done

# fetch SUITE PACKAGE DIR: unpacks the source
fetch() {
	debian_apt_init "$temp/apt" "$(dpkg --print-architecture)" "$1"
	sed -i 's/^deb /deb-src /' "$temp/apt/sources.list"
	(
		cd "$temp"
		apt-get -c apt/apt.conf -q update &&
			apt-get -c apt/apt.conf -q source --download-only "$2"
	) >"$temp/log" 2>&1 || {
		tail -n 5 "$temp/log" >&2
		skip "source of $2: apt-get failed, see above (is the mirror reachable?)"
	}
	# apt has checked the sums against its signed list.
	dpkg-source --no-check -x "$temp/$2"_*.dsc "$3" >>"$temp/log" 2>&1
}

# compile SOURCE PROGRAM OPTION...: without the tests, and without compiling the library
compile() (
	source=$1 program=$2 target=${2%/bin/*}
	library=$target/lib/${2##*/}
	shift 2
	cd "$source"
	# shellcheck disable=SC2086 # a list
	./configure --prefix="$target" $configure "$@" OPT="-O2 -DNDEBUG -fwrapv" BASECFLAGS="$flags"
	make -j2
	make altbininstall sharedinstall
	mkdir -p "$library"
	for entry in Lib/*; do
		case ${entry#Lib/} in
		test | idlelib | tkinter | turtledemo | lib2to3 | ensurepip | __pycache__) ;;
		*) cp -r "$entry" "$library/" ;;
		esac
	done
	cp build/lib.*/_sysconfigdata_*.py "$library/"
	"$program" -c 'import ctypes, sysconfig, threading, zlib; sysconfig.get_config_vars()'
)

from_source() { # VERSION SUITE OPTION...
	version=$1 suite=$2
	shift 2
	# Another recipe or compiler is another program.
	key=$({ echo "$flags $configure $*"; gcc --version; } | cksum | cut -d' ' -f1)
	target=$cache/python-$python-$key
	program=$target/bin/python$version
	case $python in ft-*) program=${program}t ;; esac
	if [ ! -e "$target/.complete" ]; then
		[ -z "$cached" ] || skip "not built yet"
		for tool in dpkg-source make gcc flock; do
			command -v $tool >/dev/null || die "$tool: not found; run scripts/deps.sh test"
		done
		exec 9>"$target.lock"
		flock 9
	fi
	if [ ! -e "$target/.complete" ]; then
		say "building $python from the source of Debian $suite (once, minutes)"
		temp=$(mktemp -d "$cache/temp.XXXXXX")
		trap 'rm -rf "$temp"' EXIT
		trap 'exit 130' INT
		trap 'exit 143' TERM HUP
		rm -rf "$target"
		fetch "$suite" "python$version" "$temp/source"
		# Not under "if": set -e would not count inside.
		(set -e; compile "$temp/source" "$program" "$@") >>"$temp/log" 2>&1 9>&- &
		wait $! || {
			tail -n 20 "$temp/log" >&2
			die "$python: the build failed, see above"
		}
		: >"$target/.complete"
	fi
	echo "- $program"
}

# The names that the comment above has, and what pyenv has.
list() {
	sed -n '/^# --list/q; s/^#     \([a-z]*-[0-9]\)/\1/p' "$0" | awk '{
		split($1, first, "-")
		for (i = 1; i <= NF && $i ~ /-[0-9]/; i++)
			print first[1] substr($i, index($i, "-"))
	}'
	for path in "${HOME:-/nonexistent}"/.pyenv/versions/3.*/bin/python3; do
		version=$(echo "$path" | sed -n 's,.*/\(3\.[0-9]*\)[^/]*/bin/python3$,\1,p')
		case $version in '' | 3.[0-8]) ;; *) echo "pyenv-$version" ;; esac
	done | sort -u
}

if [ "${1-}" = --list ]; then
	list
	exit
fi
if [ "${1-}" = --cached ]; then
	cached=1
	shift
fi
if [ "${1-}" = --arch ]; then
	arch=${2:?--arch: needs a value}
	shift 2
fi
python=${1:?usage: python.sh NAME | --list | --cached NAME | --arch ARCH NAME}
cache=$(cache_dir)

if [ -n "$arch" ] && [ "$arch" != "$(dpkg --print-architecture)" ]; then
	# shellcheck disable=SC2086 # lists
	case $python in
	debian-3.11) foreign bookworm 3.11 $host_libs ;;
	# Mirrors may lack what the newest point release of trixie has, and sid has it, too.
	debian-3.13) (foreign sid 3.13 $libs) || foreign trixie 3.13 $libs ;;
	debian-3.14) foreign sid 3.14 $libs ;;
	debian-3.15) foreign sid 3.15 $libs ;;
	*) skip "there is none for $arch" ;;
	esac
	exit
fi

case $python in
debian-3.11) [ -x /usr/bin/python3.11 ] || skip "this machine has no /usr/bin/python3.11"
	echo "- /usr/bin/python3.11" ;;
debian-3.9) in_tree old /usr/bin/python3.9 ;;
debian-3.13) in_tree stable /usr/bin/python3.13 ;;
debian-3.14) in_tree new /usr/bin/python3.14 ;;
debian-3.15) in_tree new /usr/bin/python3.15 ;;
debug-3.15) in_tree new /usr/bin/python3.15-dbg ;;
debug-*) in_tree "$python" "/usr/bin/python${python#debug-}-dbg" ;;
embed-3.14) embed ;;
pypy-3.11) in_tree pypy /usr/bin/pypy3 ;;
pyenv-*) pyenv "${python#pyenv-}" ;;
fp-3.9) from_source 3.9 bullseye ;;
fp-3.11) from_source 3.11 bookworm ;;
fp-3.13) from_source 3.13 trixie ;;
fp-3.14) from_source 3.14 sid ;;
ft-3.13) from_source 3.13 trixie --disable-gil ;;
ft-3.14) from_source 3.14 sid --disable-gil ;;
ft-3.15) from_source 3.15 sid --disable-gil ;;
fp-3.10 | fp-3.12) skip "no release of Debian has its source" ;;
*) say "$python: no such interpreter"; exit 2 ;;
esac
