#!/usr/bin/perl
# SPDX-License-Identifier: OLDAP-2.8
# Shows how Perl's LMDB_File reads; what it saw goes to standard output.
# usage: perl_read.pl DIRECTORY
use strict;
use warnings;
use Digest::SHA qw(sha256_hex);
use LMDB_File qw(:flags :cursor_op :error);

my ($directory) = @ARGV;
$LMDB_File::die_on_err = 0;

sub show { print join(" ", map { defined $_ ? $_ : "undef" } @_), "\n" }

sub scan {
	my ($cursor, $begin, $step) = @_;
	my ($key, $data, $count, $all) = (undef, undef, 0, "");
	my $rc = $cursor->get($key, $data, $begin);
	while (!$rc) {
		$all .= length($key) . " " . length($data) . " " . $key . $data;
		$count++;
		$rc = $cursor->get($key, $data, $step);
	}
	return ($count, $rc, substr(sha256_hex($all), 0, 16));
}

my $env = LMDB::Env->new("$directory/named", { flags => MDB_RDONLY, maxdbs => 16 });
my $txn = $env->BeginTxn(MDB_RDONLY);
my $stat = $env->stat;
show("stat", map { "$_=$stat->{$_}" } sort keys %$stat);
for my $name (qw(words dups fixed intdups reverse empty)) {
	my $db = $txn->OpenDB({ dbname => $name });
	my $numbers = $db->stat;
	show($name, map { "$_=$numbers->{$_}" } sort keys %$numbers);
	show("forward", scan($db->Cursor, MDB_FIRST, MDB_NEXT));
	show("backward", scan($db->Cursor, MDB_LAST, MDB_PREV));
	show("keys", scan($db->Cursor, MDB_FIRST, MDB_NEXT_NODUP));
	for my $wanted ("key004", "word00017", "zzz", "") {
		my ($key, $data) = ($wanted, undef);
		show("range", $wanted, $db->Cursor->get($key, $data, MDB_SET_RANGE), $key,
			defined $data ? sha256_hex($data) : "none");
		show("get", $wanted, $db->get($wanted, $data));
	}
}
my $put = eval { $txn->OpenDB({ dbname => "words" })->put("a", "b") };
show("put", $put, $LMDB_File::last_err);
$txn->abort;

my $plain = LMDB::Env->new("$directory/plain.mdb", { flags => MDB_RDONLY | MDB_NOSUBDIR });
my $read = $plain->BeginTxn(MDB_RDONLY);
tie(my %hash, "LMDB_File", $read, { dbname => undef }) or die "tie: $LMDB_File::last_err";
my ($count, $all) = (0, "");
while (my ($key, $data) = each %hash) {
	$count++;
	$all .= "$key=$data";
}
show("tied", $count, sha256_hex($all), exists $hash{"00000001_n1"} ? 1 : 0, exists $hash{nothing} ? 1 : 0);

# Left to Perl's end, these go in any order, and the module then uses what is gone.
untie(%hash);
$read->abort;
undef $read;
undef $plain;
undef $txn;
undef $env;
