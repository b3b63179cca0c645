package main

import (
	_ "embed"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// helpText has more help for commands, under "== COMMAND ==": paragraphs, and indented examples.
//
//go:embed help.txt
var helpText string

// helpDetails adds the sections of help.txt to the help of the commands.
var helpDetails = kong.PostBuild(func(k *kong.Kong) error {
	addDetails(k.Model.Node, "stint")
	return nil
})

// addDetails gives a command, and those below it, their sections. One without a section has no details.
func addDetails(n *kong.Node, path string) {
	_, section, _ := strings.Cut(helpText, "== "+path+" ==\n")
	section, _, _ = strings.Cut(section, "\n== ")
	n.Detail = strings.TrimSpace(lineBreak.ReplaceAllString(section, "$1 $2"))
	for _, child := range n.Children {
		addDetails(child, path+" "+child.Name)
	}
}

// lineBreak matches the end of a line within a paragraph.
var lineBreak = regexp.MustCompile(`(\S)\n(\S)`)
