package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// canPrompt reports whether the command can prompt: stdin and stderr are terminals.
func (s streams) canPrompt() bool { return s.live() && terminal(s.in) != nil }

// consent prompts, and returns an error unless the answer is yes. refusal says that nothing was done.
func (s streams) consent(question, refusal string) error {
	switch {
	case !s.canPrompt():
		return errors.New(refusal + ": read the above and add --yes")
	case !s.agrees(question):
		return errors.New(refusal)
	}
	return nil
}

// agrees prompts, and reports whether the answer is yes. It reads no further than the answer.
func (s streams) agrees(question string) bool {
	fmt.Fprintf(s.err, "%s [y/N] ", question)
	var answer strings.Builder
	for one := make([]byte, 1); ; answer.Write(one) {
		if _, err := io.ReadFull(s.in, one); err != nil || one[0] == '\n' {
			break
		}
	}
	said := strings.ToLower(strings.TrimSpace(answer.String()))
	return said == "y" || said == "yes"
}
