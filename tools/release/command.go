package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// run runs a program and shows its output.
func (r *release) run(dir, program string, args ...string) error {
	command := r.command(dir, program, args)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(append([]string{program}, args...), " "), err)
	}
	return nil
}

// output runs a program and returns its output.
func (r *release) output(dir, program string, args ...string) (string, error) {
	command := r.command(dir, program, args)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(append([]string{program}, args...), " "), err, out)
	}
	return string(out), nil
}

// command gives a program an environment in which nothing of the caller's changes what it makes.
func (r *release) command(dir, program string, args []string) *exec.Cmd {
	command := exec.Command(program, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false", "CGO_ENABLED=0", "GOWORK=off",
		"GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "TZ=UTC", "LC_ALL=C",
		fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.at.Unix()))
	return command
}
