package main

import (
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

func main() {
	forgetVariables()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// forgetVariables removes variables that set nothing: empty ones of stint, since container tools pass unset variables
// on as empty ones, and the standard variable of traces if it is for a sampler that takes no share.
func forgetVariables() {
	for _, variable := range os.Environ() {
		if name, value, _ := strings.Cut(variable, "="); value == "" && strings.HasPrefix(name, "STINT_") {
			os.Unsetenv(name)
		}
	}
	const sampler = "OTEL_TRACES_SAMPLER_ARG"
	if share, err := strconv.ParseFloat(os.Getenv(sampler), 64); err != nil || !(share >= 0 && share <= 1) {
		os.Unsetenv(sampler)
	}
}

const description = "stint counts exactly: limit L admits exactly L, with many callers and across crashes."

// run runs the program and returns the exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	args = asMeant(args)
	out := &printed{Writer: stdout}
	stdout, stderr = printable{out}, printable{stderr}
	config := &configFile{}
	exited := -1 // kong asks to exit after it has printed the help
	parser, err := kong.New(modelOf(args[0]), kong.Name("stint"), kong.Writers(raw(stdout), raw(stderr)),
		kong.Description(description),
		kong.Exit(func(code int) { exited = code }), kong.Resolvers(config), durations,
		groups, helpDetails,
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 120}))
	if err != nil {
		panic(err) // the command line's definition is malformed: a bug in this package
	}
	command, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		return refuse(err, stderr)
	}
	err = command.Run(streams{stdin, stdout, stderr})
	if out.err != nil && (err == nil || errors.Is(err, errDenied)) {
		err = out.err
	}
	return exitCode(config.locate(err), stderr)
}

// asMeant translates other common forms for the parser: help, help COMMAND, --version, and a negative number.
func asMeant(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case len(args) == 1 && args[0] == "--version":
		return []string{"version"}
	}
	return negativeLast(args)
}

// negativeLast accepts a negative number without quoting: the parser would take the -5 of "add -5" for flags. The
// number is the last argument of adjust and of usage correct, so it may follow the flags and the -- that ends them.
func negativeLast(args []string) []string {
	corrects := len(args) > 1 && args[0] == "usage" && args[1] == "correct"
	if len(args) == 0 || args[0] != "adjust" && !corrects || slices.Contains(args, "--") {
		return args
	}
	at := slices.IndexFunc(args, func(arg string) bool {
		return len(arg) > 1 && arg[0] == '-' && strings.Trim(arg[1:], "0123456789") == ""
	})
	if at < 1 || corrects && strings.HasPrefix(args[at-1], "--") || !corrects && args[at-1] != "add" &&
		args[at-1] != "set" {
		return args
	}
	return slices.Concat(args[:at], args[at+1:], []string{"--", args[at]})
}
