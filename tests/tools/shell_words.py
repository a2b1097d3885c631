#!/usr/bin/env python3
# SPDX-License-Identifier: OLDAP-2.8
"""Lets an interactive shell on a pseudo terminal complete command lines, and prints the shell's words.

usage: shell_words.py bash|zsh|fish DIRECTORY < LINES

DIRECTORY has the commands in commands/ and their completions in bash/completions/, zsh/ and
data/fish/vendor_completions.d/, where a shell looks for them by itself. For each line of standard input, the
script prints a line: the words by which the shell would go on, sorted, without the "=" behind an option.
"""
import os
import pty
import select
import shlex
import subprocess
import sys

SECONDS = 300  # A shell that has not answered by then hangs.

ZSH = r"""
PS1='ready>' PS2='' HISTFILE='' LISTMAX=10000
unsetopt PROMPT_SP BEEP
fpath=($D/zsh $fpath)
autoload -Uz compinit && compinit -u -d $D/zcompdump
zstyle ':completion:*' insert-tab false
zstyle ':completion:*' verbose no
compadd() {
	if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
		builtin compadd "$@"
		return
	fi
	local -a hits
	builtin compadd -A hits "$@"
	(($#hits)) && print -rl -- $hits >> $D/words
	builtin compadd "$@"
}
"""

BASH = r"""
PS1='ready>' PS2= HISTFILE=
bind 'set enable-bracketed-paste off' 'set bell-style none' 2> /dev/null
bind '"\e*": insert-completions'
. /usr/share/bash-completion/bash_completion
"""


class Terminal:
    """A shell on a pseudo terminal. The script types as a user does."""

    def __init__(self, command, environment):
        self.child, self.fd = pty.fork()
        if not self.child:
            os.execvpe(command[0], command, environment)
        self.count = 0

    def say(self, keys):
        os.write(self.fd, keys.encode())

    def settle(self):
        """Returns when the shell has executed all that was typed, and its line editor has the terminal:
        before that the terminal itself would interpret a control character."""
        self.count += 1
        self.say(f"echo set'tled'-{self.count}-\r")
        seen, mark = b"", f"settled-{self.count}-".encode()
        while b"ready>" not in seen.partition(mark)[2]:
            if not select.select([self.fd], [], [], SECONDS)[0]:
                sys.exit(f"the shell hangs: {seen[-2000:]!r}")
            seen += os.read(self.fd, 65536)

    def end(self):
        self.say("exit\r")
        while True:
            try:
                if not os.read(self.fd, 65536):
                    break
            except OSError:
                break
        os.waitpid(self.child, 0)


def words_left(path):
    try:
        with open(path, encoding="utf-8") as file:
            words = file.read().splitlines()
        os.unlink(path)
        return words
    except FileNotFoundError:
        return []


def bash(terminal, line, path):
    terminal.say(f"{line}\033*\001>{shlex.quote(path)} printf '%s\\n' \r")
    terminal.settle()
    words = words_left(path)
    # The words before the last typed word stand in front; without a completion the line stays as it is.
    before = shlex.split(line)
    if not line.endswith(" "):
        before, last = before[:-1], before[-1]
        if words == before + [last]:
            return []
        # Readline completes only the part behind the "=".
        return [word.split("=", 1)[-1] if "=" in last else word for word in words[len(before):]]
    return words[len(before):]


def zsh(terminal, line, path):
    terminal.say(f"{line}\t\x15")
    terminal.settle()
    return words_left(path)


def fish(line, environment):
    found = subprocess.run(["fish", "-c", "complete -C $argv[1]", line],
                           env=environment, stdout=subprocess.PIPE, text=True, check=True)
    words = [word.split("\t")[0] for word in found.stdout.splitlines()]
    last = line.split(" ")[-1]
    return [word.split("=", 1)[-1] if "=" in last else word for word in words]


def main():
    shell, directory = sys.argv[1], os.path.abspath(sys.argv[2])
    environment = dict(os.environ, TERM="dumb", COLUMNS="200", D=directory, INPUTRC="/dev/null",
                       HOME=directory, BASH_COMPLETION_USER_DIR=f"{directory}/bash",
                       XDG_DATA_HOME=f"{directory}/home", XDG_CONFIG_HOME=f"{directory}/home",
                       XDG_DATA_DIRS=f"{directory}/data:/usr/share",
                       PATH=f"{directory}/commands:{os.environ['PATH']}")
    path = f"{directory}/words"
    terminal = None
    if shell == "bash":
        terminal = Terminal(["bash", "--norc", "--noprofile", "-i"], environment)
    elif shell == "zsh":
        terminal = Terminal(["zsh", "-f", "-i"], environment)
    if terminal:
        with open(f"{directory}/setup", "w", encoding="utf-8") as setup:
            setup.write(BASH if shell == "bash" else ZSH)
        terminal.say(f". {shlex.quote(directory)}/setup\r")
        terminal.settle()
    for line in sys.stdin.read().splitlines():
        if shell == "bash":
            words = bash(terminal, line, path)
        elif shell == "zsh":
            words = zsh(terminal, line, path)
        else:
            words = fish(line, environment)
        print(" ".join(sorted({word.rstrip("=") for word in words})))
    if terminal:
        terminal.end()


main()
