package api

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// namespaceOf returns the namespace that a request means: the default one for "".
func namespaceOf(namespace string) (string, error) {
	if namespace == "" {
		return shard.DefaultNamespace, nil
	}
	if problem := policy.NameProblem(namespace); problem != "" {
		return "", shard.Invalidf("namespace", "%s", problem)
	}
	return namespace, nil
}

func idProblem(id string) error {
	return invalid("idempotency_id", lengthProblem(id, idBytesMax))
}

func noteProblem(note string) string {
	if problem := lengthProblem(note, noteBytesMax); problem != "" {
		return problem
	}
	if strings.ContainsFunc(note, unicode.IsControl) {
		return "must have no control characters"
	}
	return ""
}

const noteBytesMax = 512

func lengthProblem(text string, bytesMax int) string {
	if len(text) > bytesMax {
		return fmt.Sprintf("has %d bytes: at most %d are allowed", len(text), bytesMax)
	}
	return ""
}

// invalid returns the error of a field with a problem, or nil if problem is "".
func invalid(field, problem string) error {
	if problem == "" {
		return nil
	}
	return shard.Invalidf(field, "%s", problem)
}

// optional returns the problem with a text that may be missing.
func optional(text string, problemOf func(string) string) string {
	if text == "" {
		return ""
	}
	return problemOf(text)
}

// countOf reads a requested number of items; otherwise is the default.
func countOf(field string, wanted uint32, otherwise, most int) (int, error) {
	switch {
	case wanted == 0:
		return otherwise, nil
	case wanted > uint32(most):
		return 0, shard.Invalidf(field, "is %d: at most %d are allowed", wanted, most)
	}
	return int(wanted), nil
}

// policyNamesProblem checks the names in a field "policies".
func policyNamesProblem(names []string, most int) error {
	if n := len(names); n > most {
		return shard.Invalidf("policies", "are %d: at most %d are allowed", n, most)
	}
	for _, name := range names {
		if problem := policy.NameProblem(name); problem != "" {
			return shard.Invalidf("policies", "has one that %s", problem)
		}
	}
	return nil
}

// instantOf reads an instant after 1970, rounded up to a microsecond: a block is never shorter than requested.
func instantOf(field string, t *timestamppb.Timestamp) (limit.Time, error) {
	switch {
	case t == nil:
		return 0, shard.Invalidf(field, "is missing")
	case t.CheckValid() != nil:
		return 0, shard.Invalidf(field, "is no instant: %s", protoErrorText(t.CheckValid()))
	case t.Seconds <= 0:
		return 0, shard.Invalidf(field, "is %s: it must lie ahead", t.AsTime().Format("2006-01-02T15:04:05Z"))
	}
	return limit.Time(t.Seconds)*microsPerSecond + limit.Time((t.Nanos+999)/1000), nil
}

// renamedField returns an error with another field name.
func renamedField(err error, name func(string) string) error {
	return alteredError(err, func(told *shard.Error) {
		if told.Field != "" {
			told.Field = name(told.Field)
		}
	})
}

// alteredError returns an error with a change, if it is one of a request.
func alteredError(err error, change func(*shard.Error)) error {
	failure, ok := errors.AsType[*shard.Error](err)
	if !ok {
		return err
	}
	told := *failure
	change(&told)
	return &told
}
