#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# The host's end of vm-init: reads a machine's console, passes the command's output on as it comes,
# and leaves in DIR: boot (what came before), begun, status, out.N (files, compressed, in base64).
# Must never make up a status: a machine that dies has none.
#   vm-console.pl MARK DIR
use strict;
use warnings;

my ($mark, $dir) = @ARGV;
my ($to, $part);
$| = 1;

sub into {
	my ($name) = @_;
	open($to, '>', "$dir/$name") or die "vm-console: $dir/$name: $!\n";
}

into('boot');
while (my $line = <STDIN>) {
	$line =~ s/\r+(?=\n?$)//;
	if ($line !~ /^(.*)\Q$mark\E (\w+) ?(\d*)$/s) {
		print $to $line;
		next;
	}
	my ($rest, $what, $number) = ($1, $2, $3);
	print $to $rest; # the last line of the output, if it had no end
	close $to if $to != \*STDOUT;
	# A file is one once the next mark shows that all of it came.
	rename("$dir/$part", substr("$dir/$part", 0, -5)) if defined $part;
	undef $part;
	if ($what eq 'begin') {
		into('begun'), close $to;
		$to = \*STDOUT;
		next;
	}
	into('status'), print $to "$number\n" if $what eq 'end';
	into($part = "out.$number.part") if $what eq 'file';
	into('after') if $what ne 'file';
}
