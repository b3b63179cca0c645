package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/stint-io/stint/node"
)

// The exit codes other than 0 and 1.
const (
	exitUsage  = 2
	exitDenied = 3
	exitDisk   = 75
)

// errDenied ends a command with a denied request. The answer is already printed.
var errDenied = errors.New("denied")

// usageError is a fault of the command line that the parser could not detect.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// isUsage reports whether an error is about the command line, the config file, or a file that they name: a restart
// would not help.
func isUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage) || errors.Is(err, node.ErrConfig) || errors.Is(err, node.ErrTwice) ||
		errors.Is(err, node.ErrRemoved)
}

// refuse prints why the command line or the config file cannot be understood.
func refuse(err error, stderr io.Writer) int {
	var config configError
	if errors.As(err, &config) {
		fmt.Fprintf(stderr, "stint: %v\n", config)
		return exitUsage
	}
	fmt.Fprintf(stderr, "stint: %v (run stint --help, or stint COMMAND --help)\n", err)
	return exitUsage
}

// exitCode prints the error, if there is one, and returns the exit code of the process.
func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, errDenied) {
		return exitDenied
	}
	fmt.Fprintf(stderr, "stint: %v\n", err)
	switch {
	case errors.Is(err, node.ErrDisk):
		return exitDisk
	case isUsage(err):
		return exitUsage
	}
	return 1
}
