package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// How each shell is asked how to go on with a line: its words are the arguments after the file.
const (
	bashAsks = `bash -n "$1" && . "$1" && shift && COMP_WORDS=("$@") && COMP_CWORD=$(($# - 1)) ` +
		`&& _stint && printf '%s\n' "${COMPREPLY[@]}"`
	// Without a terminal there is no completion system: what the function hands to it is printed.
	zshAsks = `zsh -n "$1" && _describe() { local name=$@[-1]; print -l -- ${${(P)name}%%:*} } && _files() { } &&
		file=$1 && shift && words=("$@") && CURRENT=$# && PREFIX=${@[-1]} && . ./$file`
	fishAsks = `fish --no-execute $argv[1] && source $argv[1] && complete -C "$argv[2..-1]" | string split -f 1 \t`
)

// completes asks a shell, and is skipped where it is not.
func completes(t *testing.T, dir, shell string, ask ...string) {
	if _, err := exec.LookPath(shell); err != nil {
		t.Skip(shell + " is not here")
	}
	for line, want := range map[string]string{
		"stint ser":              "serve",
		"stint cluster ":         "drain remove-node log-level upgrade secret",
		"stint cluster upgrade ": "status pin finish",
		"stint serve --api-a":    "--api-addr",
		"stint status --output ": "table json",
	} {
		command := exec.Command(shell, append(ask, strings.Split(line, " ")...)...)
		command.Dir = dir
		out, err := command.CombinedOutput()
		last := line[strings.LastIndex(line, " ")+1:]
		var got []string
		for _, word := range strings.Fields(string(out)) {
			if strings.HasPrefix(word, last) {
				got = append(got, word)
			}
		}
		slices.Sort(got)
		if words := strings.Fields(want); err != nil || !slices.Equal(got, slices.Sorted(slices.Values(words))) {
			t.Errorf("%q: %v: %s, want %s", line, err, out, want)
		}
	}
}

// Each script walks the words of the line down to a command, and offers what may come next: commands below it, or its
// flags, or the values of the flag before; and files otherwise.

func (m *manual) bash() string {
	var text strings.Builder
	fmt.Fprintf(&text, `# bash completion for stint, made of its command line.
_stint() {
    local path= word words= current=${COMP_WORDS[COMP_CWORD]}
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $path/$word in
        %s) path+=/$word ;;
        esac
    done
    case $path:$current in
`, m.paths(" | "))
	for _, command := range m.commands {
		if !command.Leaf() {
			fmt.Fprintf(&text, "    %s:*) words='%s' ;;\n", pathOf(command), names(below(command)))
		} else {
			fmt.Fprintf(&text, "    %s:-*) words='%s' ;;\n", pathOf(command), names(flags(command)))
		}
	}
	text.WriteString("    esac\n    case $path:${COMP_WORDS[COMP_CWORD-1]} in\n")
	for _, command := range m.commands {
		for _, f := range flags(command) {
			if len(f.values) > 0 {
				fmt.Fprintf(&text, "    %s:%s) words='%s' ;;\n", pathOf(command), f.name, strings.Join(f.values, " "))
			}
		}
	}
	text.WriteString(`    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _stint stint
`)
	return text.String()
}

func (m *manual) zsh() string {
	var text strings.Builder
	fmt.Fprintf(&text, `#compdef stint
# zsh completion for stint, made of its command line.
local at= word
local -a offers
for word in "${(@)words[2,CURRENT-1]}"; do
    case $at/$word in
    (%s) at+=/$word ;;
    esac
done
case $at:$words[CURRENT-1]:$PREFIX in
`, m.paths("|"))
	for _, command := range m.commands {
		for _, f := range flags(command) {
			if len(f.values) > 0 {
				fmt.Fprintf(&text, "(%s:%s:*) offers=(%s) ;;\n", pathOf(command), f.name, strings.Join(f.values, " "))
			}
		}
		pattern, offers := ":*:-*", flags(command)
		if !command.Leaf() {
			pattern, offers = ":*:*", below(command)
		}
		fmt.Fprintf(&text, "(%s%s) offers=(\n", pathOf(command), pattern)
		for _, o := range offers {
			fmt.Fprintf(&text, "    %s\n", single(o.name+":"+o.help))
		}
		text.WriteString(") ;;\n")
	}
	text.WriteString("esac\nif (($#offers)); then\n    _describe stint offers\nelse\n    _files\nfi\n")
	return text.String()
}

func (m *manual) fish() string {
	var text strings.Builder
	fmt.Fprintf(&text, `# fish completion for stint, made of its command line.
function __stint_at
    set -l at
    set -l words (commandline -opc)
    for word in $words[2..-1]
        switch "$at/$word"
            case %s
                set at "$at/$word"
        end
    end
    test "$at" = "$argv[1]"
end
`, m.paths(" "))
	for _, command := range m.commands {
		at := fmt.Sprintf("complete -c stint -n '__stint_at \"%s\"'", pathOf(command))
		if !command.Leaf() {
			for _, o := range below(command) {
				fmt.Fprintf(&text, "%s -f -a %s -d %s\n", at, o.name, single(o.help))
			}
			continue
		}
		for _, o := range flags(command) {
			takes := ""
			if len(o.values) > 0 {
				takes = fmt.Sprintf(" -x -a '%s'", strings.Join(o.values, " "))
			} else if o.takes {
				takes = " -r"
			}
			fmt.Fprintf(&text, "%s -l %s%s -d %s\n", at, strings.TrimPrefix(o.name, "--"), takes, single(o.help))
		}
	}
	return text.String()
}

// paths are the ways to all commands but the program itself.
func (m *manual) paths(between string) string {
	var all []string
	for _, command := range m.commands[1:] {
		all = append(all, pathOf(command))
	}
	return strings.Join(all, between)
}

// offer is a word that may come next.
type offer struct {
	name, help string
	takes      bool     // a flag that takes a value
	values     []string // all that a flag may take; none: it may be anything
}

func below(command *kong.Node) (all []offer) {
	for _, child := range command.Children {
		if !child.Hidden {
			all = append(all, offer{name: child.Name, help: child.Help})
		}
	}
	return all
}

func flags(command *kong.Node) (all []offer) {
	for _, flag := range command.Flags {
		if !flag.Hidden {
			o := offer{name: "--" + flag.Name, help: flag.Help, takes: !flag.IsBool()}
			if flag.Enum != "" {
				o.values = flag.EnumSlice()
			}
			all = append(all, o)
		}
	}
	return all
}

func names(offers []offer) string {
	var all []string
	for _, o := range offers {
		all = append(all, o.name)
	}
	return strings.Join(all, " ")
}

// single quotes a text for zsh and fish.
func single(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `'\''`).Replace(text) + "'"
}
