package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

var manualDir = flag.String("manual", "", "write the man pages and the completions into this directory, for a release")

// manual writes the man pages and the completions of the shells. It is no part of the program: `make release` runs it.
type manual struct {
	commands []*kong.Node // that are not hidden, with those above them; first the program itself
	date     string
	version  string
}

// TestManual writes the manual, and holds that what reads it understands it.
func TestManual(t *testing.T) {
	dir := *manualDir
	if dir == "" {
		dir = t.TempDir()
	}
	m := newManual(t)
	files := map[string]string{"stint.bash": m.bash(), "_stint": m.zsh(), "stint.fish": m.fish(),
		"stint.1": m.overview()}
	for _, command := range m.commands[0].Children {
		if !command.Hidden {
			files["stint-"+command.Name+".1"] = m.page(command)
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("bash", func(t *testing.T) { completes(t, dir, "bash", "-c", bashAsks, "bash", "stint.bash") })
	t.Run("zsh", func(t *testing.T) { completes(t, dir, "zsh", "-fc", zshAsks, "zsh", "_stint") })
	t.Run("fish", func(t *testing.T) { completes(t, dir, "fish", "--no-config", "-c", fishAsks, "stint.fish") })
	t.Run("pages", func(t *testing.T) {
		if _, err := exec.LookPath("mandoc"); err != nil {
			t.Skip("mandoc is not here")
		}
		pages, _ := filepath.Glob(filepath.Join(dir, "*.1"))
		if said, err := exec.Command("mandoc", append([]string{"-Tlint", "-Wwarning"}, pages...)...).
			CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, said)
		}
	})
}

// Each section of help.txt is that of a command.
func TestTheHelpIsThatOfCommands(t *testing.T) {
	detailed := 0
	for _, command := range newManual(t).commands {
		if command.Detail != "" {
			detailed++
		}
	}
	if sections := strings.Count("\n"+helpText, "\n== "); detailed != sections || sections == 0 {
		t.Errorf("%d commands have one of %d sections", detailed, sections)
	}
}

func newManual(t *testing.T) *manual {
	t.Helper()
	parser, err := kong.New(&commandLine{}, kong.Name("stint"), kong.Description(description), durations, groups,
		helpDetails)
	if err != nil {
		t.Fatal(err)
	}
	m := &manual{version: version(), date: "1970-01-01"}
	if at, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		m.date = time.Unix(at, 0).UTC().Format(time.DateOnly)
	}
	var visit func(*kong.Node)
	visit = func(n *kong.Node) {
		m.commands = append(m.commands, n)
		for _, child := range n.Children {
			if !child.Hidden {
				visit(child)
			}
		}
	}
	visit(parser.Model.Node)
	return m
}

// overview is stint(1): what there is.
func (m *manual) overview() string {
	page := m.begin("stint", strings.TrimSuffix(strings.TrimPrefix(description, "stint "), "."))
	page.WriteString(".SH SYNOPSIS\n.B stint\n.I command\n.RI [ arguments ]\n.SH DESCRIPTION\n")
	page.WriteString("Each command has a page of its own, as\n.BR stint\\-serve (1).\n")
	group := ""
	for _, command := range m.commands[0].Children {
		if command.Hidden {
			continue
		}
		if command.Group.Title != group {
			group = command.Group.Title
			fmt.Fprintf(page, ".SS %s\n", roff(strings.TrimSuffix(group, ":")))
		}
		fmt.Fprintf(page, ".TP\n.BR %s (1)\n%s\n", roff("stint-"+command.Name), roff(command.Help))
	}
	page.WriteString(`.SH EXIT STATUS
0: done; 1: failed; 2: the command line or the configuration is wrong; 3: denied;
75: serve stopped itself because a disk could not be trusted.
.SH SEE ALSO
https://github.com/stint\-io/stint
`)
	return page.String()
}

// page is the page of a command, with those below it.
func (m *manual) page(top *kong.Node) string {
	page := m.begin("stint-"+top.Name, strings.TrimSuffix(top.Help, "."))
	page.WriteString(".SH SYNOPSIS\n.nf\n")
	var below []*kong.Node
	for _, command := range m.commands {
		if path := pathOf(command); path == pathOf(top) || strings.HasPrefix(path, pathOf(top)+"/") {
			below = append(below, command)
		}
	}
	for _, command := range below {
		if command.Leaf() {
			fmt.Fprintf(page, ".B %s\n", roff("stint "+command.Summary()))
		}
	}
	page.WriteString(".fi\n.SH DESCRIPTION\n")
	for _, command := range below {
		if command != top {
			fmt.Fprintf(page, ".SS %s\n", roff("stint "+command.Path()))
		}
		page.WriteString(roff(command.Help) + "\n")
		writeDetail(page, command.Detail)
		for _, argument := range command.Positional {
			fmt.Fprintf(page, ".TP\n.I %s\n%s\n", roff(argument.Summary()), roff(argument.Help))
		}
		for _, flag := range command.Flags {
			if flag.Name != "help" {
				writeFlag(page, flag)
			}
		}
	}
	page.WriteString(".SH SEE ALSO\n.BR stint (1)\n")
	return page.String()
}

func (m *manual) begin(name, about string) *strings.Builder {
	page := new(strings.Builder)
	fmt.Fprintf(page, ".TH %s 1 %s \"stint %s\"\n", strings.ToUpper(name), m.date, roff(m.version))
	fmt.Fprintf(page, ".SH NAME\n%s \\- %s\n", roff(name), roff(about))
	return page
}

// writeDetail writes the help of a command: paragraphs, and examples, which are indented.
func writeDetail(page *strings.Builder, text string) {
	example := false
	for line := range strings.SplitSeq(text, "\n") {
		inside, isExample := strings.CutPrefix(line, "    ")
		switch {
		case line == "" && !example:
			continue
		case isExample && !example:
			page.WriteString(".PP\n.nf\n.RS\n")
		case !isExample && line != "" && example:
			page.WriteString(".RE\n.fi\n.PP\n")
		case !example:
			page.WriteString(".PP\n")
		}
		example = isExample || line == "" && example
		page.WriteString(roff(inside) + "\n")
	}
	if example {
		page.WriteString(".RE\n.fi\n")
	}
}

func writeFlag(page *strings.Builder, flag *kong.Flag) {
	name := "--" + flag.Name
	if flag.Short != 0 {
		name = fmt.Sprintf("-%c, %s", flag.Short, name)
	}
	if !flag.IsBool() {
		name += "=" + flag.FormatPlaceHolder()
	}
	fmt.Fprintf(page, ".TP\n.B %s\n%s\n", roff(name), roff(flag.Help))
	if len(flag.Envs) > 0 {
		fmt.Fprintf(page, "Environment: %s.\n", roff(strings.Join(flag.Envs, ", ")))
	}
}

// pathOf is the way to a command, as /cluster/drain; that of the program itself is empty.
func pathOf(n *kong.Node) string {
	if n.Parent == nil {
		return ""
	}
	return pathOf(n.Parent) + "/" + n.Name
}

var quoted = regexp.MustCompile("`([^`]*)`")

// roff escapes what roff would take for its own.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	text = quoted.ReplaceAllString(text, `\fB$1\fR`)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}
