#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Boots a Debian kernel under qemu (no KVM: it can hang older guests) and runs a command in it.
#   scripts/vm.sh [OPTION]... KERNEL -- COMMAND [ARGUMENT]...
# As in: vm.sh --bin build/s390/rprof-bpf --python debian-3.15 --add p.py:/tmp/p.py s390x-6.12 -- \
#        sh -c 'debian-3.15 /tmp/p.py & rprof-bpf -p $! -d 5'
# Output of the command goes to stdout, its status is this script's; 77: the kernel cannot be had,
# 124: timeout, 125: the machine could not be started or died. Must never need root or a network
# once its kernel is in the cache, nor end a process that it did not start.
set -eu

usage() {
	cat <<-'EOF'
	usage: vm.sh [OPTION]... KERNEL -- COMMAND [ARGUMENT]...
	       vm.sh [OPTION]... --shell KERNEL
	       vm.sh --fetch KERNEL...
	  --bin FILE[:/GUEST]    an ELF program, as /bin/FILE, with loader and libraries
	  --add PATH:/GUEST      a file or a directory, as it is
	  --python NAME          an interpreter of python.sh, as the command NAME: in a root of its own,
	                         /py/NAME, which has /tmp, /proc and /dev of the guest, and no module
	                         of use for no test
	  --out FILE:/GUEST      afterwards, copy the guest's file to FILE
	  --timeout SECONDS      (300)
	  --smp N                (2)
	  --memory MIB           (2048)
	  --append WORDS         more for the kernel's command line
	  --shell                a prompt on this terminal instead of a command; "exit" switches off
	  --fetch                only get the kernels into the cache
	EOF
	printf 'kernels:'
	kernels | while read -r name _; do printf ' %s' "$name"; done
	echo
}

# name, architecture of Debian, name of the package (extended regular expression), suites
kernels() {
	cat <<-'EOF'
	amd64-5.10  amd64  linux-image-5\.10\.[^-]*-[0-9]+-cloud-amd64  bullseye bullseye-security
	amd64-6.1   amd64  linux-image-6\.1\.[^-]*-[0-9]+-cloud-amd64   bookworm bookworm-security
	amd64-6.12  amd64  linux-image-6\.12\.[^-]*-cloud-amd64         trixie trixie-security
	amd64-7.2   amd64  linux-binary-7\.[^-]*-cloud-amd64            sid
	s390x-6.1   s390x  linux-image-6\.1\.[^-]*-[0-9]+-s390x         bookworm bookworm-security
	s390x-6.12  s390x  linux-image-6\.12\.[^-]*-s390x               trixie trixie-security
	s390x-7.2   s390x  linux-binary-7\.[^-]*-s390x                  sid
	EOF
}

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/debian.sh
. "$here/debian.sh"

die_usage() { say "$1"; usage >&2; exit 2; }
die_start() { say "$1"; exit 125; }

# ---------------------------------------------------------------------- kernels

# find_kernel NAME: sets arch, pattern, suites
find_kernel() {
	local line
	line=$(kernels | awk -v n="$1" '$1 == n')
	[ -n "$line" ] || die_usage "$1: no such kernel"
	read -r _ arch pattern suites <<<"$line"
}

# fetch_kernel NAME: makes $cache/kernels/NAME with vmlinuz, config, package and their checksums
fetch_kernel() {
	local name=$1 dir=$cache/kernels/$1 temp package image tried=
	find_kernel "$name"
	if [ -e "$dir/SHA256SUMS" ]; then
		if (cd "$dir" && sha256sum --quiet --status -c SHA256SUMS); then
			return
		fi
		say "warning: $dir: damaged; fetching it again"
		rm -rf "$dir"
	fi
	say "fetching kernel $name (once)"
	temp=$work/kernel.$name
	mkdir -p "$temp/tree"
	# shellcheck disable=SC2086 # suites is a list
	debian_apt_init "$temp" "$arch" $suites
	# A file of the last days can be missing while the index names it: then the next older one.
	for package in $(apt-cache -c "$temp/apt.conf" pkgnames linux- | grep -xE "$pattern" |
		sort -rV | head -n 4); do
		tried="$tried $package"
		(cd "$temp" && apt-get -c apt.conf -q download "$package" >>log 2>&1) || continue
		# Where it lies has moved; not every package has a configuration. tar minds what is not there.
		dpkg-deb --fsys-tarfile "$temp/$package"_*.deb | tar -C "$temp/tree" --wildcards -xf - \
			'./boot/vmlinu?-*' './usr/lib/modules/*/vmlinuz' './boot/config-*' 2>>"$temp/log" || :
		image=$(find "$temp/tree" -type f -name 'vmlinu?*')
		if [ ! -f "$image" ]; then
			echo "E: $package: no kernel image in it" >>"$temp/log"
			continue
		fi
		mkdir "$temp/kernel"
		mv "$image" "$temp/kernel/vmlinuz"
		mv "$temp"/tree/boot/config-* "$temp/kernel/config" 2>/dev/null || :
		basename "$temp/$package"_*.deb >"$temp/kernel/package"
		(cd "$temp/kernel" && sha256sum -- * >"$temp/sums")
		mv "$temp/sums" "$temp/kernel/SHA256SUMS"
		mkdir -p "$cache/kernels"
		mv -T "$temp/kernel" "$dir" 2>/dev/null || [ -e "$dir/SHA256SUMS" ] ||
			die_start "$dir: cannot make it"
		return
	done
	grep '^[EW]:' "$temp/log" | tail -n 5 | sed 's/^/vm.sh:   /' >&2 || :
	say "SKIP: kernel $name: cannot get${tried:- any package like $pattern} for $arch from $suites"
	exit 77
}

# ---------------------------------------------------------------------- the guest's files

# in_guest PATH: makes the directory of the guest's PATH; sets staged to where PATH is on the host
in_guest() {
	case $1 in /*) ;; *) die_usage "$1: a path in the guest begins with /" ;; esac
	staged=$stage$1
	mkdir -p "$(dirname "$staged")"
}

# find_library NAME RUNPATH: sets library to its path as the guest's loader will see it
find_library() {
	local path
	IFS=: read -ra path <<<"$2"
	for library in "${path[@]}" "/lib/$triplet" "/usr/lib/$triplet" /lib /usr/lib /lib64; do
		library=$library/$1
		[ ! -e "$sysroot$library" ] || return 0
	done
	return 1
}

# add_libraries HOST_FILE: the loader and, to any depth, the libraries of an ELF file
add_libraries() {
	local file=$1 name runpath dynamic
	if ! dynamic=$(readelf -Wld "$file" 2>/dev/null); then
		die_start "$file: not an ELF file"
	fi
	runpath=$(sed -n 's/.*(R\(UN\)\?PATH).*\[\(.*\)\]$/\2/p' <<<"$dynamic")
	# shellcheck disable=SC2013 # file names without blanks
	for name in $(sed -n -e 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' \
		-e 's/.*program interpreter: \(.*\)\]$/\1/p' <<<"$dynamic"); do
		case $name in
		/*) library=$name ;;
		*) find_library "$name" "$runpath" ||
			die_start "$file: needs $name, which is not in ${sysroot:-this system}" ;;
		esac
		[ ! -e "$stage$library" ] || continue
		in_guest "$library"
		cp -L "$sysroot$library" "$staged"
		add_libraries "$sysroot$library"
	done
}

add_program() {
	local file=${1%%:/*} to
	to=${1#"$file"}
	to=${to#:}
	in_guest "${to:-/bin/$(basename "$file")}"
	cp -L --preserve=mode "$file" "$staged" || die_start "$file: cannot copy it"
	add_libraries "$file"
}

add_path() {
	local from=${1%%:/*}
	[ "$from" != "$1" ] || die_usage "--add $1: not of the form PATH:/GUEST"
	in_guest "${1#"$from":}"
	if [ -d "$from" ]; then
		mkdir -p "$staged"
		cp -a --reflink=auto "$from/." "$staged/"
	else
		cp -L --preserve=mode,timestamps "$from" "$staged"
	fi || die_start "$from: cannot copy it"
}

# What of a library of Python is no use in a guest, below /usr/lib/pythonX.Y
python_without='test idlelib tkinter turtledemo lib2to3 ensurepip pydoc_data config-* __pycache__
	lib-dynload/_ssl.* lib-dynload/_hashlib.* lib-dynload/_sqlite3.* lib-dynload/_curses*
	lib-dynload/_decimal.* lib-dynload/_codecs_* lib-dynload/_test* lib-dynload/*xx*
	lib-dynload/_tkinter.* lib-dynload/nis.* lib-dynload/_dbm.* lib-dynload/_gdbm.* lib-dynload/readline.*'

# stage_python PATH: the interpreter at PATH of $sysroot, with its library, and how to call it
stage_python() {
	local stdlib=/usr/lib/${1##*/} words=() word file
	stage_root "$stage"
	mkdir -p "$stage$stdlib"
	for word in $python_without; do words+=(--exclude="./$word"); done
	tar -C "$sysroot$stdlib" -c "${words[@]}" . | tar -C "$stage$stdlib" -x
	find "$stage$stdlib" -xtype l -delete
	add_program "$sysroot$1:$1"
	for file in "$stage$stdlib"/lib-dynload/*.so; do
		[ ! -e "$file" ] || add_libraries "$file"
	done
}

# make_layer NAME: makes $layer, an archive of /py/NAME, once for each build of the interpreter
make_layer() {
	local name=$1 where path sysroot stage status=0 temp=$work/layer.$1
	where=$("$here/python.sh" --arch "$arch" "$name") || status=$?
	[ $status = 0 ] || exit "$status"
	path=${where##* } sysroot=${where% *}
	[ "$sysroot" != - ] || sysroot=''
	layer=$cache/vm-python-$arch-$name-$({
		stat -Lc '%n %s %Y' "$sysroot$path"
		sed -n '/^# What of a library/,/^# --* the machine/p' "$0"
	} | cksum | cut -d' ' -f1).cpio
	[ ! -e "$layer" ] || return 0
	stage=$temp/py/$name
	stage_python "$path"
	mkdir -p "$temp/usr/bin"
	cat >"$temp/usr/bin/$name" <<-EOF
		#!/bin/sh
		export PYTHONDONTWRITEBYTECODE=1 PYTHONHASHSEED=0 HOME=/
		exec chroot /py/$name $path "\$@"
	EOF
	chmod 755 "$temp/usr/bin/$name"
	pack "$temp" >"$work/layer.cpio"
	mv "$work/layer.cpio" "$layer"
	rm -rf "$temp"
}

# pack DIRECTORY: as the kernel unpacks it; several archives may follow one another
pack() { (cd "$1" && find . | cpio --quiet -o -H newc -R 0:0); }

# As one word of a shell
quoted() { printf "'%s' " "${1//\'/\'\\\'\'}"; }

# stage_root DIRECTORY: what every root has
stage_root() {
	local dir
	for dir in bin sbin lib lib64; do
		mkdir -p "$1/usr/$dir"
		ln -s "usr/$dir" "$1/$dir"
	done
	mkdir -p "$1"/{dev,proc,sys,run,tmp,root,etc,vm}
}

# stage_guest COMMAND...: everything but what --bin, --add and --python bring
stage_guest() {
	local word
	stage_root "$stage"
	cp -L "$sysroot/bin/busybox" "$stage/bin/busybox" ||
		die_start "busybox: not found; run scripts/deps.sh vm"
	ln -s busybox "$stage/bin/sh"
	echo 'root:x:0:0:root:/root:/bin/sh' >"$stage/etc/passwd"
	echo 'root:x:0:' >"$stage/etc/group"
	sed "s/@MARK@/$mark/" "$here/vm-init" >"$stage/init"
	chmod 755 "$stage/init"
	[ -z "$shell" ] || : >"$stage/vm/shell"
	for word in "$@"; do quoted "$word"; done >"$stage/vm/command"
	echo >>"$stage/vm/command"
	for word in "${!outs[@]}"; do
		echo "/${outs[word]#*:/}" >"$stage/vm/out.$word"
	done
}

# ---------------------------------------------------------------------- the machine

# set_qemu: sets qemu to the command that boots it. Where the host is busy, an emulated PC's timer
# fails the test that the kernel makes of it at the start: no_timer_check.
set_qemu() {
	case $arch in
	amd64) qemu=(qemu-system-x86_64) ;;
	s390x) qemu=(qemu-system-s390x -M s390-ccw-virtio) ;;
	esac
	command -v "${qemu[0]}" >/dev/null || die_start "${qemu[0]}: not found; run scripts/deps.sh vm"
	qemu+=(-accel tcg -cpu max -smp "$smp" -m "$memory" -no-reboot
		-nodefaults -display none -serial stdio
		-kernel "$cache/kernels/$kernel/vmlinuz" -initrd "$work/initrd"
		-append "console=ttyS0 panic=-1 quiet loglevel=3 no_timer_check $append")
}

# run_shell: the machine's console is our terminal, whose keys all go to it
run_shell() {
	local settings=''
	[ ! -t 0 ] || { settings=$(stty -g) && stty raw -echo; }
	# Waited for, so that a terminal that goes away ends it.
	"${qemu[@]}" <&0 &
	qemu_pid=$!
	wait "$qemu_pid" || :
	qemu_pid=''
	[ -z "$settings" ] || stty "$settings"
}

end_watch() {
	[ -z "$watch_pid" ] || kill "$watch_pid" 2>/dev/null || :
	watch_pid=''
}

# boot: until it is switched off, or dies; sets ended. One that hangs before it runs our init is
# stopped.
boot() {
	local console_pid

	ended=0
	rm -f "$work/console"
	mkfifo "$work/console"
	"$here/vm-console.pl" "$mark" "$work" <"$work/console" &
	console_pid=$!
	timeout --kill-after=5 "$timeout" "${qemu[@]}" </dev/null >"$work/console" 2>"$work/qemu.log" &
	qemu_pid=$!
	sleep "$boot_timeout" &
	watch_pid=$!
	wait -n "$qemu_pid" "$watch_pid" || ended=$?
	if ! kill -0 "$watch_pid" 2>/dev/null; then
		ended=0
		[ -e "$work/begun" ] || kill "$qemu_pid" 2>/dev/null || :
		wait "$qemu_pid" || ended=$?
	fi
	qemu_pid=''
	end_watch
	wait "$console_pid" || :
}

# run_machine: boots it; sets status if it told one
run_machine() {
	local ended=0

	boot
	if [ ! -e "$work/begun" ]; then
		say "warning: $kernel: nothing was run in it (emulator's status $ended); booting once more"
		sed 's/^/vm.sh:   /' "$work/boot" "$work/qemu.log" | tail -n 20 >&2
		boot
	fi
	if [ -e "$work/status" ]; then
		status=$(cat "$work/status")
	elif [ "$ended" = 124 ] || [ "$ended" = 137 ]; then
		say "$kernel: no end after $timeout s: stopped"
		status=124
	else
		say "$kernel: the machine died without telling a status"
		status=125
	fi
	# Before the command, that is: what came after went to stdout.
	[ -e "$work/status" ] || cat "$work/boot" "$work/qemu.log" | sed 's/^/vm.sh:   /' >&2
}

fetch_outs() {
	local i file
	for i in "${!outs[@]}"; do
		file=${outs[i]%%:/*}
		if [ ! -e "$work/out.$i" ]; then
			say "$file: no /${outs[i]#*:/} came out of the machine"
			[ "$status" != 0 ] || status=125
		else
			base64 -d "$work/out.$i" | gzip -dc >"$file.part"
			mv "$file.part" "$file"
		fi
	done
}

# shellcheck disable=SC2317 # by a trap
cleanup() {
	if [ -n "$qemu_pid" ]; then
		kill "$qemu_pid" 2>/dev/null || : # timeout, which hands it on
		wait "$qemu_pid" || :
	fi
	end_watch
	rm -rf "$work"
}

# ---------------------------------------------------------------------- options

timeout=300 boot_timeout=200 smp=2 memory=2048 append='' fetch='' shell='' bins=() adds=() pythons=() outs=()
while [ $# -gt 0 ]; do
	case $1 in
	--bin | --add | --python | --out | --timeout | --smp | --memory | --append)
		[ $# -gt 1 ] || die_usage "$1: needs a value"
		case $1 in
		--bin) bins+=("$2") ;;
		--add) adds+=("$2") ;;
		--python) pythons+=("$2") ;;
		--out) outs+=("$2") ;;
		--timeout) timeout=$2 ;;
		--smp) smp=$2 ;;
		--memory) memory=$2 ;;
		--append) append=$2 ;;
		esac
		shift 2 ;;
	--fetch) fetch=1; shift ;;
	--shell) shell=1; shift ;;
	-h | --help) usage; exit 0 ;;
	-*) die_usage "$1: unknown option" ;;
	*) break ;;
	esac
done
[ $# -gt 0 ] || die_usage "no kernel named"

cache=$(cache_dir)
qemu_pid='' watch_pid=''
work=$(mktemp -d "$cache/temp.XXXXXX")
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if [ -n "$fetch" ]; then
	for kernel in "$@"; do fetch_kernel "$kernel"; done
	exit 0
fi
kernel=$1
shift
[ "${1-}" != -- ] || shift
[ $# -gt 0 ] || [ -n "$shell" ] || die_usage "no command given"
fetch_kernel "$kernel"

case $arch in
amd64) sysroot='' triplet=x86_64-linux-gnu ;;
s390x) sysroot=$("$here/s390x-sysroot.sh") triplet=s390x-linux-gnu ;;
esac
mark=vm-$(od -An -N8 -tx8 /dev/urandom | tr -d ' ')
stage=$work/stage
mkdir "$stage"
stage_guest "$@"
for item in "${adds[@]}"; do add_path "$item"; done
for item in "${bins[@]}"; do add_program "$item"; done
command -v cpio >/dev/null || die_start "cpio: not found; run scripts/deps.sh vm"
pack "$stage" >"$work/initrd"
rm -rf "$stage"
for item in "${pythons[@]}"; do
	make_layer "$item"
	cat "$layer" >>"$work/initrd"
done
set_qemu
if [ -n "$shell" ]; then
	run_shell
	exit
fi
run_machine
fetch_outs
exit "$status"
