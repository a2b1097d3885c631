# SPDX-License-Identifier: OLDAP-2.8
# Makes the completion of a command, or the list of options in its manual page, from the command's own
# table of options (tools/tool_table.c has its form; tools/tool_common.h says what an argument means).
#
# usage: COMMAND --table-of-options | awk -v form=bash|zsh|fish -f options.awk -
#        COMMAND --table-of-options | awk -v form=man -f options.awk - PAGE.in
#
# In a page "@option NAME@" stands for the head of that option and its sentence of --help; the details
# follow it in the page. A page that lacks an option, or has one too many, is refused.

function refuse(text) {
	print "options.awk: " text > "/dev/stderr"
	refused = 1
	exit 1
}

# Splits an argument into its alternatives, part[]. `words` gets those that are words, `place` the last other one, a
# name in capitals, and `optional` whether the argument may be left out.
function argument_split(text, i, n) {
	words = place = ""
	optional = text ~ /^\[/
	gsub(/\[|\]/, "", text)
	n = split(text, part, "|")
	for (i = 1; i <= n; i++)
		if (part[i] ~ /^[a-z0-9][a-z0-9.-]*$/)
			words = words (words == "" ? "" : " ") part[i]
		else
			place = part[i]
}

BEGIN { FS = "\t" }

# --- the manual: a page after the table ---

# Returns the text for roff, in which long and short options keep their hyphens.
function roff(text) {
	gsub(/\\/, "\\e", text)
	gsub(/--/, "\\-\\-", text)
	text = " " text
	gsub(/ -[^ ]/, "&", text)
	while (match(text, / -[A-Za-z0-9]/))
		text = substr(text, 1, RSTART) "\\-" substr(text, RSTART + 2)
	return substr(text, 2)
}

# Returns an argument for roff: words in bold, and names, which stand for the user's values, in italics.
function argument_roff(text, result, token) {
	result = ""
	while (text != "") {
		if (match(text, /^[A-Z]+/))
			token = "\\fI" tolower(substr(text, 1, RLENGTH)) "\\fP"
		else if (match(text, /^[a-z0-9]+/))
			token = "\\fB" substr(text, 1, RLENGTH) "\\fP"
		else {
			match(text, /^./)
			token = substr(text, 1, 1)
		}
		result = result token
		text = substr(text, RLENGTH + 1)
	}
	return result
}

function head(i, text, value) {
	value = argument[i]
	if (value ~ /^\[/) {
		value = substr(value, 2, length(value) - 2)
		value = "[=" argument_roff(value) "]"
	} else if (value != "")
		value = (long[i] == "" ? " " : "=") argument_roff(value)
	text = letter[i] == "" ? "" : "\\fB\\-" letter[i] "\\fP"
	if (long[i] != "")
		text = text (text == "" ? "" : ", ") "\\fB" roff("--" long[i]) "\\fP"
	gsub(/-[a-z]/, "\\\\&", text)
	gsub(/\\\\-/, "\\-", text)
	return text value
}

function sentence_print(text, n, i, word, line) {
	n = split(roff(toupper(substr(text, 1, 1)) substr(text, 2) "."), word, " ")
	line = ""
	for (i = 1; i <= n; i++) {
		if (line != "" && length(line) + 1 + length(word[i]) > 78) {
			print line
			line = ""
		}
		if (line == "" && word[i] ~ /^[.']/)
			line = "\\&"
		line = line (line == "" || line == "\\&" ? "" : " ") word[i]
	}
	print line
}

form == "man" && FILENAME != "-" {
	if ($0 !~ /^@option .*@$/) {
		print
		next
	}
	name = substr($0, 9, length($0) - 9)
	if (!(name in row))
		refuse(FILENAME ": " command " has no option " name)
	if (shown[name]++)
		refuse(FILENAME ": option " name " is there twice")
	print ".TP"
	print head(row[name])
	sentence_print(help[row[name]])
	next
}

# --- the table ---

$1 == "command" { command = $2 }
$1 == "in-order" { in_order = 1 }
$1 == "synopsis" && !operands_known {
	operands_known = 1
	n = split($2, word, " ")
	for (i = 1; i <= n; i++) {
		gsub(/\[|\]|\./, "", word[i])
		if (word[i] ~ /^[A-Z]+$/ && word[i] != "OPTION") {
			operands++
			if (word[i] == "PROGRAM") {
				program = operands
				break
			}
		}
	}
}
$1 == "option" {
	options++
	letter[options] = $2
	long[options] = $3
	argument[options] = $4
	help[options] = $5
	row[$3 == "" ? $2 : $3] = options
}

# --- bash ---

# Returns the command that fills COMPREPLY with the possible values of an argument.
function bash_values(text, result) {
	argument_split(text)
	result = ""
	if (place == "DATABASE")
		return "mapfile -t COMPREPLY < <(databases)"
	if (place == "PRESET" || place == "POLICY,...")
		words = "$(listed " (place == "PRESET" ? "presets" : "policies") ")"
	if (words != "")
		result = "mapfile -t COMPREPLY < <(compgen -W \"" words "\" -- \"$current\")"
	if (place == "FILE" || place == "LIBRARY" || place == "PATH")
		result = result (result == "" ? "" : "; ") "compopt -o default"
	else if (place == "DIR")
		result = "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$current\")"
	return result == "" ? ":" : result
}

# Prints a function that prints the names of the databases that begin with the current word. compgen -W would
# execute "$(command)" in a name, and so would the completed line: names are quoted, and inside of quotes that the
# user has begun there are only names that need nothing more.
function bash_databases() {
	print "\tdatabases() {"
	print "\t\tlocal name quoted quote= typed=$current"
	print "\t\t[[ $current != [\\'\\\"]* ]] || quote=1 typed=${current:1}"
	print "\t\tfor word in \"${COMP_WORDS[@]:1}\"; do"
	print "\t\t\tword=${word/#\\~\\//$HOME/}"
	print "\t\t\tword=${word//\\\\/}"
	print "\t\t\t[[ -e $word ]] && lmdbio-dump --list -- \"$word\" 2> /dev/null"
	print "\t\tdone | while IFS= read -r name; do"
	print "\t\t\tprintf -v quoted %q \"$name\""
	print "\t\t\tif [[ -z $quote ]]; then"
	print "\t\t\t\t[[ $name == \"$typed\"* || $quoted == \"$typed\"* ]] && printf '%s\\n' \"$quoted\""
	print "\t\t\telif [[ $name == \"$typed\"* && ${quoted//\\\\ / } == \"$name\" ]]; then"
	print "\t\t\t\tprintf '%s\\n' \"$name\""
	print "\t\t\tfi"
	print "\t\tdone"
	print "\t}"
}

# Returns the names of an option, for a case: "-t | --to".
function names(i) {
	return (letter[i] == "" ? "" : "-" letter[i]) (letter[i] != "" && long[i] != "" ? " | " : "") \
		(long[i] == "" ? "" : "--" long[i])
}

function bash_print(i, all) {
	print "# " command ": how bash completes its command line. Made of its table of options."
	print "# shellcheck shell=bash"
	fn = command
	gsub(/-/, "_", fn)
	print "_" fn "() {"
	print "\tlocal current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} equals= at word ended="
	print "\tCOMPREPLY=()"
	print "\t# Bash takes \"=\" for a word of its own."
	print "\tif [[ $current == = ]]; then"
	print "\t\tcurrent= equals=1"
	print "\telif [[ $before == = ]]; then"
	print "\t\tbefore=${COMP_WORDS[COMP_CWORD - 2]} equals=1"
	print "\tfi"
	for (i = 1; i <= options; i++) {
		if (argument[i] ~ /DATABASE/)
			bash_databases()
		if (argument[i] ~ /PRESET/)
			print "\tlisted() { " command " --list 2> /dev/null |" \
				" awk -v part=\"$1:\" '/:$/ { here = $0 == part; next } here { print $1 }'; }"
		all = all (letter[i] == "" ? "" : " -" letter[i])
		if (long[i] != "")
			all = all " --" long[i] (argument[i] == "" || argument[i] ~ /^\[/ ? "" : "=")
	}
	if (program) {
		print "\tlocal seen=0 program="
		print "\tfor ((at = 1; at < COMP_CWORD; at++)); do"
		print "\t\tword=${COMP_WORDS[at]}"
		print "\t\tif [[ -z $ended && $word == -- ]]; then"
		print "\t\t\tended=1"
		print "\t\t\tcontinue"
		print "\t\tfi"
		print "\t\tif [[ -z $ended ]]; then"
		print "\t\t\tcase $word in"
		for (i = 1; i <= options; i++)
			if (argument[i] != "" && argument[i] !~ /^\[/)
				takes = takes (takes == "" ? "" : " | ") names(i)
		print "\t\t\t" takes ")"
		print "\t\t\t\t[[ ${COMP_WORDS[at + 1]} == = ]] && ((at++))"
		print "\t\t\t\t((at++))"
		print "\t\t\t\tcontinue"
		print "\t\t\t\t;;"
		print "\t\t\t-*)"
		print "\t\t\t\t[[ ${COMP_WORDS[at + 1]} == = ]] && ((at += 2))"
		print "\t\t\t\tcontinue"
		print "\t\t\t\t;;"
		print "\t\t\tesac"
		print "\t\tfi"
		print "\t\t((++seen == " program ")) && program=$at && break"
		print "\tdone"
		print "\t# A program's own words are completed as if it stood alone."
		print "\tif [[ -z $program && $seen -eq " program - 1 " && $at -eq $COMP_CWORD && ($current != -* || -n $ended) ]]; then"
		print "\t\tprogram=$COMP_CWORD"
		print "\tfi"
		print "\tif [[ -n $program ]]; then"
		print "\t\tif declare -F _comp_command_offset > /dev/null; then"
		print "\t\t\t_comp_command_offset \"$program\""
		print "\t\telif declare -F _command_offset > /dev/null; then"
		print "\t\t\t_command_offset \"$program\""
		print "\t\telif [[ $program -eq $COMP_CWORD ]]; then"
		print "\t\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$current\")"
		print "\t\telse"
		print "\t\t\tcompopt -o default"
		print "\t\tfi"
		print "\t\treturn"
		print "\tfi"
	}
	print "\tcase $before in"
	for (i = 1; i <= options; i++)
		if (argument[i] != "" && argument[i] !~ /^\[/)
			print "\t" names(i) ") " bash_values(argument[i]) "; return ;;"
		else if (argument[i] != "")
			print "\t" names(i) ") [[ -z $equals ]] || { " bash_values(argument[i]) "; return; } ;;"
	print "\tesac"
	print "\tif [[ $current == -* ]]; then"
	print "\t\tmapfile -t COMPREPLY < <(compgen -W \"" substr(all, 2) "\" -- \"$current\")"
	print "\t\t[[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace"
	if (operands) {
		print "\telse"
		print "\t\tcompopt -o default"
	}
	print "\tfi"
	print "}"
	print "complete -F _" fn " " command
}

# --- zsh ---

function quoted(text) {
	gsub(/'/, "'\\''", text)
	return text
}

function zsh_action(text) {
	argument_split(text)
	if (place == "DATABASE")
		return "_lmdbio_databases"
	if (place == "PRESET")
		return "_lmdbio_presets"
	if (place == "POLICY,...")
		return "_sequence _lmdbio_policies"
	if (place == "DIR")
		return "_files -/"
	if (place == "FILE" || place == "LIBRARY" || place == "PATH")
		return words == "" ? "_files" \
				   : "_alternative \"words\\:word\\:(" words ")\" \"files\\:file\\:_files\""
	return words == "" ? " " : "(" words ")"
}

function zsh_option(i, text, value, how) {
	text = help[i]
	gsub(/\[|\]|:/, "\\\\&", text)
	text = "[" text "]"
	optional = argument[i] ~ /^\[/
	if (argument[i] != "") {
		value = tolower(argument[i])
		gsub(/\[|\]|,|\.\.\./, "", value)
		gsub(/:/, " ", value)
		text = text (optional ? "::" : ":") value ":" zsh_action(argument[i])
	}
	how = argument[i] == "" ? "" : argument[i] ~ /^\[/ ? "-" : "+"
	if (letter[i] == "" || long[i] == "")
		return "'" quoted((letter[i] == "" ? "--" long[i] (how == "" ? "" : how == "-" ? "=-" : "=") \
					  : "-" letter[i] how) text) "'"
	return "'(-" letter[i] " --" long[i] ")'{-" letter[i] how ",--" long[i] \
		(how == "" ? "" : how == "-" ? "=-" : "=") "}'" quoted(text) "'"
}

function zsh_print(i) {
	print "#compdef " command
	print "# How zsh completes the command line of " command ". Made of its table of options."
	for (i = 1; i <= options; i++) {
		if (argument[i] ~ /DATABASE/) {
			print "_lmdbio_databases() {"
			print "\tlocal word"
			print "\tlocal -a found"
			print "\tfor word in ${(Q)words[2,-1]}; do"
			print "\t\t[[ -e $word ]] && found+=(${(f)\"$(lmdbio-dump --list -- $word 2> /dev/null)\"})"
			print "\tdone"
			print "\tcompadd -a found"
			print "}"
		}
		if (argument[i] ~ /PRESET|POLICY/) {
			what = argument[i] ~ /PRESET/ ? "presets" : "policies"
			print "_lmdbio_" what "() {"
			print "\tcompadd \"$@\" -- $(" command " --list 2> /dev/null |" \
				" awk '/:$/ { here = $0 == \"" what ":\"; next } here { print $1 }')"
			print "}"
		}
	}
	print "_arguments -s -S " (in_order ? "-A '-*' " : "") "\\"
	for (i = 1; i <= options; i++)
		print "\t" zsh_option(i) (i < options || operands ? " \\" : "")
	for (i = 1; i < (program ? program : 0); i++)
		print "\t'" i ":path:_files' \\"
	if (program) {
		print "\t'*:::program:_normal'"
	} else if (operands)
		print "\t'*:path:_files'"
}

# --- fish ---

function fish_quoted(text) {
	gsub(/\\/, "\\\\", text)
	gsub(/'/, "\\'", text)
	return "'" text "'"
}

function fish_values(text, list) {
	argument_split(text)
	list = "awk '/:$/ { here = $0 == \"%s:\"; next } here { print $1 }'"
	if (place == "DATABASE")
		return " -x -a " fish_quoted("(for word in (commandline -opc)[2..-1]; test -e $word;" \
					     " and lmdbio-dump --list -- $word 2> /dev/null; end)")
	if (place == "PRESET")
		return " -x -a " fish_quoted("(" command " --list 2> /dev/null | " sprintf(list, "presets") ")")
	if (place == "POLICY,...")
		return " -x -a " fish_quoted("(__fish_complete_list , '" command " --list 2> /dev/null | " \
					     "awk \"/:\\$/ { here = \\$0 == \\\"policies:\\\"; next } here { print \\$1 }\"')")
	if (place == "DIR")
		return " -x -a " fish_quoted("(__fish_complete_directories)")
	if (place == "FILE" || place == "LIBRARY" || place == "PATH")
		return " -r -F" (words == "" ? "" : " -a " fish_quoted(words))
	return (optional ? " -f" : " -x") (words == "" ? "" : " -a " fish_quoted(words))
}

function fish_print(i, takes) {
	print "# How fish completes the command line of " command ". Made of its table of options."
	for (i = 1; i <= options; i++)
		if (argument[i] != "" && argument[i] !~ /^\[/)
			takes = takes (letter[i] == "" ? "" : " -" letter[i]) (long[i] == "" ? "" : " --" long[i])
	condition = ""
	if (program) {
		fn = command
		gsub(/-/, "_", fn)
		print "function __fish_" fn "_program"
		print "\tset -l seen 0"
		print "\tset -l skip 0"
		print "\tfor word in (commandline -opc)[2..-1]"
		print "\t\tif test $skip -eq 1"
		print "\t\t\tset skip 0"
		print "\t\telse if contains -- $word" takes
		print "\t\t\tset skip 1"
		print "\t\telse if not string match -q -- '-*' $word"
		print "\t\t\tset seen (math $seen + 1)"
		print "\t\tend"
		print "\tend"
		print "\ttest $seen -ge $argv[1]"
		print "end"
		condition = " -n " fish_quoted("not __fish_" fn "_program " program)
		print "complete -c " command " -n " fish_quoted("__fish_" fn "_program " program - 1) \
			" -x -a " fish_quoted("(__fish_complete_subcommand --fcs-skip=" program " --" takes ")")
	} else if (!operands)
		print "complete -c " command " -f"
	for (i = 1; i <= options; i++)
		print "complete -c " command condition (letter[i] == "" ? "" : " -s " letter[i]) \
			(long[i] == "" ? "" : " -l " long[i]) \
			(argument[i] == "" ? "" : fish_values(argument[i])) " -d " fish_quoted(help[i])
}

END {
	if (refused)
		exit 1
	if (!options)
		refuse("no table of options was given")
	if (form == "bash")
		bash_print()
	else if (form == "zsh")
		zsh_print()
	else if (form == "fish")
		fish_print()
	else
		for (name in row)
			if (!shown[name]) {
				print "options.awk: the manual of " command " lacks @option " name "@" > "/dev/stderr"
				exit 1
			}
}
