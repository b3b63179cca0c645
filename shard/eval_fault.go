package shard

import (
	"fmt"
	"path"
	"runtime"
	"strings"

	"github.com/stint-io/stint/policy"
)

// A panic is a defect of this package. One request must not stop a shard, and then each of its next owners. An
// evaluation is pure, so when it panics its decisions and effects are thrown away, and the requests before the faulty
// one are decided again without it. So no request has half of its effects, and no epoch need end.

// evaluateAround evaluates a batch that panicked at a request, or while encoding the effects up to it. Only that
// request fails, and it is the last one that is answered.
func evaluateAround(
	view View, policies *policy.Set, requests []Request, at Stamp, place int, fault *Error,
) (results []Result, puts []Put) {
	good, bad := 0, place+1 // good of the first requests can be decided together, and bad cannot
	for try := place; bad-good > 1 || results == nil; try = good + (bad-good)/2 {
		some, effects, again := evaluate(view, policies, requests[:try], at)
		switch {
		case again != nil:
			bad, fault = len(some), again
		case len(some) < try: // the entry is full without it
			return some, effects
		default:
			good, results, puts = try, some, effects
		}
	}
	return append(results, Result{Err: fault}), puts
}

// faultOf returns the error of a request that caused a panic, with the call stack of the panic.
func faultOf(panicked any) *Error {
	var calls [32]uintptr
	frames := runtime.CallersFrames(calls[:runtime.Callers(3, calls[:])]) // from the panicking function on
	var places []string
	for len(places) < 6 {
		frame, more := frames.Next()
		if !more || strings.HasSuffix(frame.Function, ".evaluate") {
			break
		}
		if !strings.HasPrefix(frame.Function, "runtime.") {
			places = append(places, fmt.Sprintf("%s:%d", path.Base(frame.File), frame.Line))
		}
	}
	return errorf(Fault, "", "a defect of stint met the request, of which nothing was carried out: %v (%s)",
		panicked, strings.Join(places, " < "))
}
