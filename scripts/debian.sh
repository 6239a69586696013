# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Sourced by the scripts that fetch from the Debian mirror this machine's own apt is set up for:
# packages of another suite or architecture, without touching the machine's apt state.
# Functions are subshells: they share no variable with who calls them.
# Must never name a mirror: URIs, proxies and the like all come from the machine's configuration.

say() { printf '%s: %s\n' "${0##*/}" "$1" >&2; }
die() { say "$1"; exit 1; }

# Where downloads and unpacked trees live; safe to delete at any time that no script runs.
cache_dir() (
	where=${RPROF_CACHE:-${HOME:?neither RPROF_CACHE nor HOME is set}/.cache/rprof-bpf}
	mkdir -p "$where" || die "$where: cannot make it; set RPROF_CACHE to a directory of yours"
	(cd "$where" && pwd)
)

# debian_targets: "URI suite component" of each source of packages, as apt itself reads them
debian_targets() {
	# shellcheck disable=SC2016 # apt's own variables
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' \
		'Created-By: Packages' 2>/dev/null | sort -u
}

# debian_uri SUITE: where this machine would find it. Other suites live beside its own.
debian_uri() (
	own=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
	case $1 in
	*-security) names="$own-security stable-security oldstable-security" ;;
	*) names="$own stable oldstable testing unstable sid" ;;
	esac
	for name in $names; do
		uri=$(debian_targets | awk -v s="$name" '$2 == s && $3 == "main" { print $1; exit }')
		if [ -n "$uri" ]; then
			echo "$uri"
			exit
		fi
	done
	say "$1: this machine's apt has no Debian source to derive its place from (looked for: $names)"
	exit 1
)

# debian_sources SUITE...: the lines of a sources.list; without *-security where this machine has none
debian_sources() (
	keys=/usr/share/keyrings/debian-archive-keyring.gpg
	signed=
	[ ! -e $keys ] || signed="[signed-by=$keys] "
	for name in "$@"; do
		case $name in
		*-security) uri=$(debian_uri "$name" 2>/dev/null) || continue ;;
		*) uri=$(debian_uri "$name") || exit 1 ;;
		esac
		echo "deb $signed$uri $name main"
	done
)

# debian_net_conf: this machine's proxies and other ways to the mirror, as apt configuration.
# Release files of old suites and of mirrors that lag are past their date; they are signed anyway.
debian_net_conf() {
	apt-config dump | grep -E '^Acquire::(http|https|ftp|Retries|ForceIPv|By-Hash|Check-)' |
		grep -v -e '::User-Agent ' -e '[Aa]uto-[Dd]etect ' || :
	echo 'Acquire::Check-Valid-Until "false";'
	echo 'Acquire::Languages "none";'
}

# debian_apt_init DIR ARCH SUITE...: private apt state in DIR; use it with: apt-get -c DIR/apt.conf
debian_apt_init() (
	dir=$1 arch=$2
	shift 2
	mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
	debian_sources "$@" >"$dir/sources.list" || exit 1
	{
		debian_net_conf
		cat <<-EOF
		APT::Architecture "$arch";
		#clear APT::Architectures;
		APT::Architectures "$arch";
		APT::Sandbox::User "root";
		Dir::State "$dir";
		Dir::State::lists "$dir/lists";
		Dir::State::status "/dev/null";
		Dir::Cache "$dir/cache";
		Dir::Etc::sourcelist "$dir/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		EOF
	} >"$dir/apt.conf"
	apt-get -c "$dir/apt.conf" -q update >"$dir/log" 2>&1 ||
		say "warning: apt-get update for $arch $*: $(grep -m 1 '^[EW]:' "$dir/log")"
)
