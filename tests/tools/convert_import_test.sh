#!/bin/bash
# SPDX-License-Identifier: OLDAP-2.8
# Checks that each kind of import makes the records that its manual promises, and refuses what an attacker may have
# put into its source.
# shellcheck source-path=SCRIPTDIR source=harness.sh
. "$(dirname "$0")/harness.sh"
need mdb_stat cmp
python=/usr/bin/python3
convert=$top_builddir/tools/lmdbio-convert
"$python" -c 'import lmdb' 2> /dev/null || skip "no python3-lmdb here"
cd "$scratch"

# imported NAME KIND TARGET SOURCE...: TARGET holds the records that convert_records.py finds in SOURCE.
imported() {
	name=$1
	shift
	judge "$name" "$python" "$top_srcdir/tests/tools/convert_records.py" "$@"
}

# --- files: names that sort around the slash, links, odd bytes, an empty file, more files than a batch ---
"$python" - <<'END'
import os, random, struct, zlib
random.seed(3)
def put(path, data):
    os.makedirs(os.path.dirname(path) or b".", exist_ok=True)
    open(path, "wb").write(data)
def png(w, h):
    chunk = lambda n, d: struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(bytes((3 * w + 1) * h))) + chunk(b"IEND", b""))
def jpeg(w, h):
    return (b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + b"JFIF\0" + bytes(9) + b"\xff\xff\xc0" +
            struct.pack(">HBHHB", 17, 8, h, w, 3) + bytes(9) + b"\xff\xd9")
for name in (b"a", b"a.b", b"a-b", b"a0", b"a b"):
    put(b"tree/" + name + b"/file", name)
    put(b"tree/" + name + b".txt", name * 100)
put(b"tree/caf\xc3\xa9 \xff\n/odd", b"odd")
put(b"tree/empty", b"")
put(b"tree/large", random.randbytes(40 << 20))
for i in range(5000):
    put(b"tree/many/%d/%d" % (i % 7, i), b"%d" % i * (i % 90))
os.symlink("../a.txt", "tree/a/link")
os.symlink("..", "tree/a/loop")
os.symlink("../nowhere", "tree/a/dangling")
os.symlink("circle", "tree/a/circle")
os.symlink("file/below", "tree/a/through")
os.makedirs("far")
os.symlink("x" * 300, "far/link")
os.mkfifo("tree/fifo")
for i in range(40):
    put(b"images/class %d/%d.png" % (i % 3, i), png(10 + i, 7))
    put(b"images/class %d/%d.jpg" % (i % 3, i), jpeg(30, 40))
put(b"images/other.bin", b"no image")
paths = sorted(os.path.relpath(os.path.join(d, f), b"images")
               for d, _, fs in os.walk(b"images") for f in fs)
open("labels", "wb").writelines(b"%s %d\n" % (p, i - 3) for i, p in enumerate(paths))
END
status tree_is_imported 0 "$convert" tree tree.lmdb.d
imported tree_has_every_file_by_its_path tree tree.lmdb.d tree
says tree_tells_what_it_left_out '5 members or files'
told link_that_cannot_be_followed_is_named 2 'far/link: File name too long: check the path' "$convert" -q far none.d
judge tree_is_in_key_order_without_free_pages test "$(mdb_stat -f tree.lmdb.d | sed -n 's/ *Free pages: //p')" -lt 500
status tree_verifies 0 "$convert" -q --verify tree verified.d
for threads in 1 3; do
	"$convert" -q -T"$threads" --to=container tree "tree$threads.zst"
	"$convert" -q --to=lmdb "tree$threads.zst" "tree$threads.mdb"
	imported "tree_by_${threads}_threads_into_a_container_is_the_same" tree "tree$threads.mdb" tree
done
judge tree_by_threads_is_one_file cmp tree1.zst tree3.zst
judge nothing_is_left_beside_the_target test -z "$(find . -maxdepth 1 -name '.*lmdbio*')"
judge map_is_not_much_larger_than_the_data \
	test "$(mdb_stat -e tree.lmdb.d | sed -n 's/ *Map size: //p')" -lt 200000000

# --- a target inside the source tree ---
mkdir inside
echo 1 > inside/a
echo 2 > inside/z
ln -s made/data.mdb inside/link
cp -r inside outside
rm outside/link
for target in made packed.zst named.mdb .; do
	for option in --quiet --force; do
		status "tree_into_itself_as_${target}_with_${option}_verifies" 0 "$convert" -q --verify $option inside "inside/$target"
	done
	case $target in
	packed.zst) "$convert" -q inside/packed.zst inside.mdb ;;
	named.mdb) cp inside/named.mdb inside.mdb ;;
	*) cp "inside/$target/data.mdb" inside.mdb ;;
	esac
	imported "tree_into_itself_as_${target}_has_its_files_alone" tree inside.mdb outside
	rm -rf inside/made inside/packed.zst inside/named.mdb inside/data.mdb inside.mdb
done

mkdir bare
status empty_tree_is_imported 0 "$convert" -q --from=tree bare bare.mdb
judge empty_tree_has_no_records test "$(mdb_stat -n bare.mdb | sed -n 's/ *Entries: //p')" = 0
status empty_tree_into_a_container_verifies 0 "$convert" -q --from=tree --verify bare bare.zst

for lock in lock.mdb data.mdb-lock; do
	mkdir "only.$lock"
	touch "only.$lock/$lock"
	told "directory_with_only_${lock}_is_refused" 2 'holds no data.mdb and .*; --from=tree imports it as it is' \
		"$convert" -q "only.$lock" none.d
done
status directory_with_only_a_lock_file_is_imported_as_a_tree 0 "$convert" -q --from=tree only.lock.mdb locked.d
judge directory_with_only_a_lock_file_has_one_record test "$(mdb_stat locked.d | sed -n 's/ *Entries: //p')" = 1

status labels_are_imported 0 "$convert" -q --labels=labels images labels.d
imported labels_stand_beside_the_files labelled labels.d images labels
status datums_are_imported 0 "$convert" -q --caffe --labels=labels images datums.d
imported datums_have_label_and_shape datums datums.d images labels
status list_is_imported 0 "$convert" -q --from=caffe --root=images labels list.d
imported list_has_the_keys_of_convert_imageset images list.d labels images
status list_verifies 0 "$convert" -q --verify --from=caffe --root=images labels list.mdb
told labels_out_of_a_pipe_cannot_be_verified 2 'a pipe, and --verify reads it twice' \
	"$convert" -q --verify --labels=<(cat labels) images none.d
status labels_out_of_a_pipe_are_verified_in_a_container 0 \
	"$convert" -q --verify --labels=<(cat labels) images labelled.zst
head -n 5 labels > few
status file_without_a_label_is_refused 2 "$convert" -q --labels=few images none.d
says file_without_a_label_is_named "no label for"
{ cat labels && echo 'gone/x.png 4'; } > more.labels
status label_without_a_file_is_told 0 "$convert" --labels=more.labels images more.d
says label_without_a_file_is_counted '1 labels'
head -n 1 labels | cat labels - > twice
status second_label_is_refused 2 "$convert" -q --labels=twice images none.d
says second_label_names_list_and_file "twice: 'class 0/0.jpg' has two labels"
echo 'a b' > words
status list_without_numbers_is_refused 2 "$convert" -q --from=caffe words none.d
says list_without_numbers_names_the_line 'line 1'
told directory_as_a_list_of_sources_is_refused 2 'images: Is a directory' "$convert" -q --from=tar @images none.d
told directory_as_labels_is_refused 2 'images: Is a directory' "$convert" -q --labels=images images none.d
told directory_as_a_list_of_images_is_refused 2 'images: Is a directory' "$convert" -q --from=caffe images none.d
echo 'missing.png 1' > missing
status list_with_a_missing_image_is_refused 2 "$convert" -q --from=caffe missing none.d
says list_with_a_missing_image_names_it 'missing.png: No such file'
echo '/proc/version 1' > sizeless
told file_with_content_but_no_size_is_refused 2 '/proc/version: it has content, but .* its size is 0: copy' \
	"$convert" -q --outside --from=caffe sizeless none.d
judge failed_imports_leave_nothing test ! -e none.d

# --- records that LMDB cannot hold ---
mkdir -p long
deep=long
for _ in 1 2 3 4; do deep=$deep/$(printf '%0150d' 1); done
mkdir -p "$deep"
echo x > "$deep/file"
status key_of_more_than_511_bytes_is_refused 2 "$convert" -q long none.d
says key_of_more_than_511_bytes_is_explained '608 bytes; LMDB holds at most 511'
mkdir huge
truncate -s 2147483648 huge/file
status value_of_2_gib_is_refused 2 "$convert" -q huge none.d
says value_of_2_gib_is_explained 'more than 2 GiB'
judge refused_imports_leave_nothing test ! -e none.d

# --- links that lead out of the source ---
mkdir -p stranger/in
echo secret > secret
echo inside > stranger/in/file
ln -s in/file stranger/link
status link_inside_the_tree_is_followed 0 "$convert" -q stranger inner.mdb
judge link_inside_the_tree_is_a_record test "$(mdb_stat -n inner.mdb | sed -n 's/ *Entries: //p')" = 2
ln -s ../secret stranger/leak
status link_out_of_the_tree_is_refused 2 "$convert" -q stranger none.d
says link_out_of_the_tree_names_the_option 'stranger/leak: it leads out of .*--outside'
status link_out_of_the_tree_is_allowed 0 "$convert" -q --outside stranger outer.mdb
judge link_out_of_the_tree_is_a_record test "$(mdb_stat -n outer.mdb | sed -n 's/ *Entries: //p')" = 3
echo "$PWD/secret 1" > list
status absolute_path_in_a_list_is_refused 2 "$convert" -q --from=caffe list none.d
says absolute_path_in_a_list_names_line_and_option "line 1: '$PWD/secret' leads out of this directory; --outside"
printf '/%0600d 1\n' 0 > list
told long_path_in_a_list_keeps_the_reason 2 "000' leads out of this directory; --outside allows that" \
	"$convert" -q --from=caffe list none.d
echo "$PWD/secret 1" > list
status absolute_path_in_a_list_is_allowed 0 "$convert" -q --outside --from=caffe list absolute.mdb
printf 'in/file 1\nin/../../secret 2\n' > list
status dots_in_a_list_are_refused 2 "$convert" -q --from=caffe --root=stranger list none.d
says dots_in_a_list_name_the_line "line 2: 'in/../../secret' leads out of stranger"
status dots_in_a_list_are_allowed 0 "$convert" -q --outside --from=caffe --root=stranger list dots.mdb
printf 'in/file 1\nleak 2\n' > list
status link_in_a_list_is_refused 2 "$convert" -q --from=caffe --root=stranger list none.d
says link_in_a_list_is_named 'stranger/leak: it leads out of'
printf 'in/..file 1\n' > list
cp secret stranger/in/..file
status name_that_begins_with_dots_is_no_way_out 0 "$convert" -q --from=caffe --root=stranger list named.mdb
judge refused_ways_out_leave_nothing test ! -e none.d
# --- values that are too large ---
mkdir big
truncate -s 300M big/zeros
status value_above_the_limit_is_refused 2 "$convert" -q big none.d
says value_above_the_limit_names_the_option 'zeros: more than 256.0 MiB; --max-value='
truncate -s 3M big/zeros
status value_above_a_lower_limit_is_refused 2 "$convert" -q --max-value=2M big none.d
status value_below_a_limit_is_taken 0 "$convert" -q --max-value=4MB big zeros.mdb
status limit_above_2_gib_is_wrong_usage 2 "$convert" -q --max-value=3G big none.d

# --- archives ---
if "$convert" --from=tar /dev/null none.d 2>&1 | grep -q 'without libarchive'; then
	not_run archives "built without libarchive"
	finish
fi
"$python" - <<'END'
import io, os, random, tarfile
random.seed(4)
def add(tar, name, data=None, **more):
    info = tarfile.TarInfo(name)
    for k, v in more.items():
        setattr(info, k, v)
    info.size = len(data or b"")
    tar.addfile(info, io.BytesIO(data) if data is not None else None)
formats = {"gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT, "ustar": tarfile.USTAR_FORMAT}
for name, form in formats.items():
    with tarfile.open(name + ".tar", "w", format=form, errors="surrogateescape") as tar:
        add(tar, "./dir", type=tarfile.DIRTYPE)
        add(tar, "./dir/z", b"last first")
        add(tar, "caf\u00e9" if form == tarfile.PAX_FORMAT else "caf\udce9", b"name")
        if form != tarfile.USTAR_FORMAT:
            add(tar, "x" * 300, b"long name")
        for i in range(600):
            add(tar, "dir/%d" % random.getrandbits(60), random.randbytes(i * 7))
        add(tar, "hard", type=tarfile.LNKTYPE, linkname="./dir/z")
        add(tar, "soft", type=tarfile.SYMTYPE, linkname="dir/z")
for shard in range(3):
    with tarfile.open("shard-%d.tar" % shard, "w") as tar:
        for i in range(shard * 5, 20):
            for extension in random.sample(["jpg", "cls", "json", "seg.png"], 3):
                add(tar, "./train/%04d.%s" % (i, extension), b"%d %d " % (shard, i) * i)
        add(tar, "README", b"no sample")
with tarfile.open("twice.tar", "w") as tar:
    add(tar, "same", b"1")
    add(tar, "same", b"2")
END
for form in gnu pax ustar; do
	status "tar_in_form_${form}_is_imported" 0 "$convert" $form.tar $form.d
	imported "tar_in_form_${form}_has_every_member" tar $form.d $form.tar
	says "tar_in_form_${form}_tells_of_the_link" '1 members or files'
done
# A second name of a file gives a record with a label of its own.
cp -r images twins
ln "twins/class 0/0.png" twins/again.png
ln "twins/other.bin" twins/bin
(cat labels && echo "again.png 77" && echo "bin -2147483648") > labels.twins
# In the archive the files come before their second names.
tar -cf twins.tar -C twins "class 0" "class 1" "class 2" other.bin again.png bin
for option in --labels=labels.twins "--labels=labels.twins --caffe" --caffe; do
	wanted=labels.twins kind=datums
	case $option in
	--labels=labels.twins) kind=labelled ;;
	--caffe) sed 's/ [^ ]*$/ 0/' labels.twins > labels.none && wanted=labels.none ;;
	esac
	# shellcheck disable=SC2086
	status "tar_of_hard_links_with_${option}_verifies" 0 "$convert" -q --verify $option twins.tar twins.mdb
	imported "tar_of_hard_links_with_${option}_has_their_labels" $kind twins.mdb twins $wanted
	rm -f twins.mdb
done
# A second name of a symbolic link is skipped like the link, unless the archive has a file of that name since.
mkdir second
echo file > second/file
ln -s file second/soft
ln second/soft second/twin
tar -cf second.tar -C second file soft twin
status tar_of_a_hard_link_to_a_link_is_imported 0 "$convert" second.tar second.d
judge tar_of_a_hard_link_to_a_link_has_its_file_alone test "$(mdb_stat second.d | sed -n 's/ *Entries: //p')" = 1
says tar_of_a_hard_link_to_a_link_counts_both '2 members or files'
rm second/soft second/twin
echo new > second/soft
ln second/soft second/last
tar -rf second.tar -C second soft last
status tar_of_a_link_that_became_a_file_verifies 0 "$convert" -q --verify second.tar replaced.d
judge tar_of_a_link_that_became_a_file_has_its_names test "$(mdb_stat replaced.d | sed -n 's/ *Entries: //p')" = 3
gzip -k pax.tar
status compressed_tar_is_imported 0 "$convert" -q --verify pax.tar.gz packed.d
imported compressed_tar_has_every_member tar packed.d pax.tar
mkfifo pipe.tar
cat pax.tar > pipe.tar &
status tar_out_of_a_pipe_is_imported 0 "$convert" -q --from=tar pipe.tar piped.d
wait $!
imported tar_out_of_a_pipe_has_every_member tar piped.d pax.tar
told tar_out_of_a_pipe_cannot_be_verified 2 'a pipe, and --verify reads it twice' \
	"$convert" -q --verify --from=tar pipe.tar none.d
for part in "head -c 5000 pax.tar" "echo text"; do
	$part > pipe.tar &
	status "${part%% *}_of_a_tar_in_a_pipe_is_refused" 2 timeout 60 "$convert" -q --from=tar pipe.tar none.d
	wait $!
done
rm pipe.tar
# Sparse files: one hole, and a hole behind data that ends where a read of a pipe does.
truncate -s 3M hollow
head -c 1048576 tree/large > trailing
truncate -s 3M trailing
tar --sparse --hole-detection=raw -cf holes.tar hollow trailing
status tar_of_files_with_holes_is_imported 0 "$convert" -q --verify holes.tar holes.d
imported tar_of_files_with_holes_has_every_byte tar holes.d holes.tar
status tar_of_files_with_holes_out_of_a_pipe_is_imported 0 "$convert" -q --from=tar <(cat holes.tar) holed.d
imported tar_of_files_with_holes_out_of_a_pipe_has_every_byte tar holed.d holes.tar
status several_tars_are_imported 0 "$convert" -q -o several.d shard-0.tar pax.tar
imported several_tars_have_every_member tar several.d shard-0.tar pax.tar
status shards_are_imported 0 "$convert" -q --from=webdataset -o shards.d shard-0.tar shard-1.tar shard-2.tar
imported shards_have_every_sample webdataset shards.d shard-0.tar shard-1.tar shard-2.tar
printf 'shard-%d.tar\n' 0 1 2 > shards
status list_of_shards_is_imported 0 "$convert" -q --from=webdataset @shards listed.zst
"$convert" -q --to=lmdb listed.zst listed.mdb
imported list_of_shards_has_every_sample webdataset listed.mdb shard-0.tar shard-1.tar shard-2.tar
status name_that_is_there_twice_is_refused 2 "$convert" -q twice.tar none.d
says name_that_is_there_twice_is_told 'same: this key is there twice'
head -c 5000 gnu.tar > cut.tar
status cut_off_tar_is_refused 2 "$convert" -q cut.tar none.d
# A cut between two members leaves an archive that tar takes for whole.
printf '%0700d' 1 | tee short-1 short-2 > short-3
tar -cf whole.tar short-1 short-2 short-3
head -c 3072 whole.tar > between.tar
gzip -k between.tar
told tar_cut_off_between_members_is_told 0 'between.tar: it has no end-of-archive block, and may be cut off' \
	"$convert" -q between.tar between.mdb
told tars_cut_off_between_members_are_told_once 0 'between.tar.gz: it and 1 more archives have no end' \
	"$convert" -q --from=webdataset -o betweens.mdb whole.tar between.tar.gz between.tar
status whole_tar_is_imported 0 "$convert" -q --from=tar <(cat whole.tar) whole.mdb
judge whole_tar_is_not_said_to_be_cut_off test ! -s err
judge failed_tars_leave_nothing test ! -e none.d

# --- archives that an attacker has made ---
mkdir bin
for program in lrzip grzip lzop gzip zstd; do
	printf '#!/bin/sh\necho started >> %s/started\nexec cat\n' "$scratch" > bin/$program
done
chmod +x bin/*
printf 'LRZI\0\6%0500d' 0 > lrzip.tar
printf 'GRZipII\0\2\4:)%0500d' 0 > grzip.tar
printf '\211LZO\0\r\n\032\n%0500d' 0 > lzop.tar
for program in lrzip grzip lzop; do
	status "archive_that_wants_${program}_is_refused" 2 \
		env PATH="$scratch/bin:$PATH" "$convert" -q $program.tar none.d
done
says archive_that_wants_a_program_is_told_so 'it is compressed by lzop, which this command does not start'
env PATH="$scratch/bin:$PATH" "$convert" -q pax.tar.gz unstarted.d
judge no_archive_starts_a_program test ! -e started
"$python" - <<'END'
import gzip, io, tarfile
# GNU's sparse format: 10 KB that declare one value of 1.9 GB.
def number(n): return b"%011o\0" % n
size = 1900 << 20
head = bytearray(512)
head[0:4] = b"void"
head[100:108] = b"0000644\0"
head[108:116] = head[116:124] = b"0000000\0"
head[124:136] = number(512)
head[136:148] = number(0)
head[148:156] = b" " * 8
head[156:157] = b"S"
head[257:265] = b"ustar  \0"
head[386:398] = number(size - 512)
head[398:410] = number(512)
head[483:495] = number(size)
head[148:156] = b"%06o\0 " % sum(head)
open("sparse.tar", "wb").write(bytes(head) + bytes(512) + bytes(8192 + 1024))
def bomb(name, members, links=0):
    with gzip.open(name, "wb") as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for i in range(members):
            info = tarfile.TarInfo("m%d" % i)
            info.size = 16 << 20
            tar.addfile(info, io.BytesIO(bytes(info.size)))
        for i in range(links):
            info = tarfile.TarInfo("l%d" % i)
            info.type, info.linkname = tarfile.LNKTYPE, "m0"
            tar.addfile(info)
bomb("bomb.tar.gz", 12)
bomb("links.tar.gz", 1, 40)
with gzip.open("headers.tar.gz", "wb") as packed:
    info = tarfile.TarInfo("d")
    info.type = tarfile.DIRTYPE
    packed.write(info.tobuf() * 160000 + bytes(1024))
END
# The limit of the address space shows whether the declared size is allocated: half a GiB, where the value declares
# 1.9 GB.
limited() {
	(
		[ "${with_sanitizer:-no}" != no ] || ulimit -v 524288
		exec "$@"
	)
}
for from in tar webdataset; do
	status "sparse_archive_from_${from}_is_refused_within_its_memory" 2 \
		limited "$convert" -q --from=$from sparse.tar none.d
	[ $from = webdataset ] || says sparse_archive_names_the_option 'void: more than 256.0 MiB; --max-value='
done
status sparse_archive_is_refused_with_large_values_too 2 \
	limited "$convert" -q --max-value=2G sparse.tar none.d
says sparse_archive_expands_too_far 'void: the archive expands to more than 65.0 MiB.*--max-expansion='
for bomb in bomb links headers; do
	status "archive_of_${bomb}_is_refused" 2 limited "$convert" -q --max-expansion=10 $bomb.tar.gz none.d
	says "archive_of_${bomb}_expands_too_far" 'the archive expands to more than'
done
status expansion_is_allowed 0 "$convert" -q --max-expansion=0 bomb.tar.gz bomb.mdb
status expansion_of_so_many_times_is_allowed 0 "$convert" -q --max-expansion=1000 bomb.tar.gz times.mdb
"$convert" -q --from=tar <(cat gnu.tar) pipe.mdb
imported pipe_has_every_member tar pipe.mdb gnu.tar
truncate -s 70M large
status large_member_in_a_pipe_does_not_count_as_expansion 0 \
	"$convert" -q --from=tar <(tar cf - large) large.mdb
status bomb_in_a_pipe_is_refused 2 \
	limited "$convert" -q --from=tar --max-expansion=10 <(cat bomb.tar.gz) none.d
rm -f large large.mdb*
judge refused_archives_leave_nothing test ! -e none.d
finish
