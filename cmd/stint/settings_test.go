package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// notOfSecurity are the flags that do not affect what callers may do. Every other flag is in the tables of the manual,
// so that a new one cannot be forgotten there.
var notOfSecurity = map[string][]string{
	"serve": {"help", "config", "data-dir", "node-id", "join", "bootstrap-expect", "shards", "replicas", "policies",
		"request-timeout", "advertise", "zone", "replace-after", "accept-time", "dev",
		"trace-ratio", "trace-denials", "log-format", "log-level", "log-slow", "decision-log-every"},
	// it has the flags of every command that asks a node, and none of its own
	"status": {"help", "addr", "timeout", "output"},
}

// TestEverySecuritySettingIsInTheManual compares docs/security.md with the flags of serve, and with those of the
// commands that ask a node: their names, variables and defaults.
func TestEverySecuritySettingIsInTheManual(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, settings, _ := strings.Cut(string(text), "\n## Settings\n")
	settings, _, _ = strings.Cut(settings, "\n## ")
	ofNodes, ofCommands, found := strings.Cut(settings, "**Of commands")
	if !found {
		t.Fatal("the manual has no settings of commands")
	}
	parser, err := kong.New(&commandLine{}, durations)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Children {
		if others, compared := notOfSecurity[command.Name]; compared {
			table := ofNodes
			if command.Name == "status" {
				table = ofCommands
			}
			compareSettings(t, command, others, rowsOf(table))
		}
	}
}

// rowsOf reads the rows of a table of flags: flag, variable, default.
func rowsOf(table string) map[string][2]string {
	rows := map[string][2]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(line, "| `--") {
			continue
		}
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		rows[strings.TrimPrefix(cells[1], "--")] = [2]string{cells[2], cells[3]}
	}
	return rows
}

func compareSettings(t *testing.T, command *kong.Node, others []string, rows map[string][2]string) {
	t.Helper()
	for _, flag := range command.Flags {
		if slices.Contains(others, flag.Name) {
			continue
		}
		want := [2]string{strings.Join(flag.Envs, ","), flag.Default}
		if got, ok := rows[flag.Name]; !ok {
			t.Errorf("--%s of stint %s is not in the manual: is it about security? Then it needs a row",
				flag.Name, command.Name)
		} else if got != want {
			t.Errorf("--%s of stint %s: the manual has variable and default %q, the command %q",
				flag.Name, command.Name, got, want)
		}
		delete(rows, flag.Name)
	}
	for name := range rows {
		t.Errorf("the manual has --%s, which stint %s has not", name, command.Name)
	}
}
