package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// streams has the input and outputs of a command. The outputs are printable: data goes to the underlying writer,
// raw(s.out). A command prints without looking at errors: run reports that of its output.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// failed returns the error of the output so far.
func (s streams) failed() error {
	if p, is := raw(s.out).(*printed); is {
		return p.err
	}
	return nil
}

// live reports whether stderr is a terminal.
func (s streams) live() bool { return terminal(s.err) != nil }

// printed is the standard output of a command. It remembers the first error, after which it writes nothing.
type printed struct {
	io.Writer
	err error
}

func (p *printed) Write(text []byte) (n int, err error) {
	if p.err == nil {
		n, p.err = p.Writer.Write(text)
	}
	return n, p.err
}

// terminal returns the terminal to which a stream leads, or nil.
func terminal(stream any) *os.File {
	if p, is := stream.(printable); is {
		stream = p.Writer
	}
	if p, is := stream.(*printed); is {
		stream = p.Writer
	}
	if file, is := stream.(*os.File); is && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}
