<?php
/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how PHP's dba reads; what it saw goes to standard output.
 * usage: php_read.php DIRECTORY */
$file = $argv[1] . "/plain.mdb";
$db = dba_open($file, "r", "lmdb");
$count = 0;
$all = hash_init("sha256");
for ($key = dba_firstkey($db); $key !== false; $key = dba_nextkey($db)) {
	hash_update($all, $key . "=" . dba_fetch($key, $db));
	$count++;
}
echo "scan $count ", hash_final($all), "\n";
foreach (["00000001_n1", "00002999_n3", "nothing"] as $key) {
	$data = dba_fetch($key, $db);
	echo "$key ", dba_exists($key, $db) ? "there " : "not there ",
		$data === false ? "none" : hash("sha256", $data), "\n";
}
echo "insert ", var_export(@dba_insert("a", "b", $db), true), "\n";
dba_close($db);
