package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// output is the flag of every command with output for programs.
type output struct {
	Output string `short:"o" help:"table for people, json for programs." enum:"table,json" default:"table"`
}

func (o output) json() bool { return o.Output == "json" }

// outputID is the flag of the commands with an answer that can be settled.
type outputID struct {
	Output string `short:"o" help:"table for people, json for programs, id: what settle takes, and nothing else." enum:"table,json,id" default:"table"`
}

// print prints a decision and returns errDenied for a denial. line is the decision in one sentence; table prints the
// rest as text. With -o id a denial has no id: its sentence goes to stderr, so that a script with an empty variable
// shows the reason.
func (o outputID) print(s streams, answer proto.Message, d *stintv1.Decision, id, line string,
	table func()) (err error) {
	switch {
	case o.Output == "json":
		err = printJSON(s, answer)
	case o.Output == "table":
		fmt.Fprintln(s.out, line)
		table()
	case id != "":
		fmt.Fprintln(s.out, id)
	case !d.GetAllowed():
		fmt.Fprintf(s.err, "stint: %s\n", line)
	}
	if err == nil && !d.GetAllowed() {
		return errDenied
	}
	return err
}

// show prints an answer: as JSON if that was asked for, else by text. It returns the error that came in its place.
func show[M any](s streams, o output, answer M, err error, text func(streams, M)) error {
	switch {
	case err != nil:
		return err
	case o.json():
		return printJSON(s, answer)
	}
	text(s, answer)
	return nil
}

// asJSON has the form of the server's own JSON: every field that is not a message is present, even "allowed": false.
var asJSON = protojson.MarshalOptions{EmitDefaultValues: true}

// printJSON writes a message, or another value, as one line. The protobuf library varies its spaces on purpose, so they
// are removed.
func printJSON(s streams, value any) error {
	message, ok := value.(proto.Message)
	if !ok {
		return json.NewEncoder(raw(s.out)).Encode(value)
	}
	text, err := asJSON.Marshal(message)
	if err != nil {
		return err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, text); err != nil {
		return err
	}
	fmt.Fprintln(raw(s.out), line.String())
	return nil
}
