package bench

import "testing"

// A server's results for the checks of a batch, in every shape that JSON allows.
func TestFatesInJSON(t *testing.T) {
	for result, want := range map[string]fate{
		`{"decision":{"allowed":true,"reason":"}"}}`:                                       allowed,
		`{"decision" : { "allowed" : true }}`:                                              allowed,
		`{"decision":{"allowed":false,"reason":"\"allowed\":true"}}`:                       denied,
		`{"decision":{"deniedBy":["login/day"]}}`:                                          denied,
		`{"failure":{"code":"not_found","message":"","maybeApplied":false}}`:               failed,
		`{"failure":{"code":"not_found","message":"no policy"}}`:                           failed,
		`{"failure":{"code":"invalid_argument","message":"tier \"maybeApplied\""}}`:        failed,
		`{"failure":{"code":"aborted","message":"shard {3} moved","maybeApplied":true}}`:   unknown,
		`{"failure" : { "code" : "aborted", "message" : "{\"}", "maybeApplied" : true } }`: unknown,
		`{"failure":{"code":"unavailable","message":"it was cut off`:                       unknown,
		`{"failure":{"code":"unavailable","message":"no bool","maybeApplied":"perhaps"}}`:  unknown,
	} {
		fates := make([]fate, 2)
		body := []byte(`{"results":[{"decision":{"allowed":true}},` + result + `]}`)
		if err := (jsonCodec{}).readFates(body, fates); err != nil || fates[1] != want {
			t.Errorf("%s: fate %d (%v), want %d", result, fates[1], err, want)
		}
	}
}
