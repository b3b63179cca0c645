package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// client calls one node with Connect's JSON, as any program with an HTTP library can.
type client struct {
	t       *testing.T
	address string
}

// object is a JSON object of a request.
type object map[string]any

// The parts of the answers that the tests read.
type (
	decision struct {
		Allowed       bool      `json:"allowed"`
		DecisionID    string    `json:"decisionId"`
		Limits        []status  `json:"limits"`
		DeniedBy      []string  `json:"deniedBy"`
		Reason        string    `json:"reason"`
		RetryAfter    *wait     `json:"retryAfter"`
		DecidedAt     time.Time `json:"decidedAt"`
		HoldID        string    `json:"holdId"`
		HoldExpiresAt time.Time `json:"holdExpiresAt"`
		Replayed      bool      `json:"replayed"`
	}
	status struct {
		Policy       string    `json:"policy"`
		Limit        string    `json:"limit"`
		Key          string    `json:"key"`
		Quota        uint64    `json:"quota,string"`
		Used         uint64    `json:"used,string"`
		Held         uint64    `json:"held,string"`
		Remaining    uint64    `json:"remaining,string"`
		WindowStart  time.Time `json:"windowStart"`
		ResetAt      time.Time `json:"resetAt"`
		RetryAfter   *wait     `json:"retryAfter"`
		Allowed      bool      `json:"allowed"`
		LockoutLevel uint32    `json:"lockoutLevel"`
		BlockedUntil time.Time `json:"blockedUntil"`
		Unlimited    bool      `json:"unlimited"`
	}
	failure struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
)

// wait is a protobuf duration in JSON: seconds with the suffix "s".
type wait time.Duration

func (w *wait) UnmarshalJSON(text []byte) error {
	d, err := time.ParseDuration(strings.Trim(string(text), `"`))
	*w = wait(d)
	return err
}

// limit finds a limit of a decision by name.
func (d decision) limit(t *testing.T, name string) status { t.Helper(); return find(t, d.Limits, name) }

func find(t *testing.T, limits []status, name string) status {
	t.Helper()
	for _, l := range limits {
		if l.Limit == name {
			return l
		}
	}
	t.Fatalf("no limit %q in %+v", name, limits)
	return status{}
}

// entry is one policy on one key, with more fields if given: "cost", 3, "tier", "free".
func entry(policy, key string, more ...any) object {
	e := object{"policy": policy, "key": key}
	for i := 0; i < len(more); i += 2 {
		e[more[i].(string)] = more[i+1]
	}
	return e
}

// check asks whether one key may spend 1, or as the further fields say.
func (c client) check(policy, key string, more ...any) decision {
	c.t.Helper()
	return c.decide("Check", object{"entries": []object{entry(policy, key, more...)}})
}

// count counts a request, whatever the limits say.
func (c client) count(e object) decision {
	c.t.Helper()
	return c.decide("Check", object{"entries": []object{e}, "mode": "MODE_COUNT"})
}

// reserve opens a hold for a minute.
func (c client) reserve(entries ...object) decision {
	c.t.Helper()
	return c.decide("Reserve", object{"check": object{"entries": entries}, "ttl": "60s"})
}

// settle applies one action to a hold or decision, named by the field target: "holdId", id, "commit", object{}.
func (c client) settle(target, id, action string, how object) decision {
	c.t.Helper()
	return c.decide("Settle", object{target: id, action: how})
}

func (c client) decide(method string, request object) decision {
	c.t.Helper()
	var answer struct{ Decision decision }
	c.must("LimitService/"+method, request, &answer)
	return answer.Decision
}

// batch makes the same check many times in one call.
func (c client) batch(n int, e object) []decision {
	c.t.Helper()
	decisions, err := batch(c.address, n, e)
	if err != nil {
		c.t.Fatal(err)
	}
	return decisions
}

// get reads the limits of a key, and the shard time of the answer.
func (c client) get(policy, key string, more ...any) ([]status, time.Time) {
	c.t.Helper()
	var answer struct {
		Limits []status
		At     time.Time
	}
	c.must("LimitService/Get", object{"entries": []object{entry(policy, key, more...)}}, &answer)
	return answer.Limits, answer.At
}

// adjust applies one change to a key: "reset", object{}.
func (c client) adjust(policy, key string, more ...any) []status {
	c.t.Helper()
	var answer struct{ Limits []status }
	c.must("LimitService/Adjust", entry(policy, key, more...), &answer)
	return answer.Limits
}

// must makes a call and fails the test on any answer but success.
func (c client) must(method string, request object, answer any) {
	c.t.Helper()
	status, body := c.call(method, request)
	if status != http.StatusOK {
		c.t.Fatalf("%s %v: status %d: %s", method, request, status, body)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		c.t.Fatalf("%s: %v in %s", method, err, body)
	}
}

// refused makes a call and expects an error with this code.
func (c client) refused(method string, request object, code string) {
	c.t.Helper()
	status, body := c.call(method, request)
	var f failure
	if err := json.Unmarshal(body, &f); err != nil || status == http.StatusOK || f.Code != code {
		c.t.Errorf("%s %v: status %d, %s, want the error %s", method, request, status, body, code)
	}
}

func (c client) call(method string, request object) (status int, body []byte) {
	c.t.Helper()
	status, body, err := post(c.address, method, request)
	if err != nil {
		c.t.Fatal(err)
	}
	return status, body
}

// post sends one request: this is the whole protocol. It may be called concurrently.
func post(address, method string, request object) (status int, body []byte, err error) {
	text, err := json.Marshal(request)
	if err != nil {
		return 0, nil, err
	}
	response, err := http.Post("http://"+address+"/stint.v1."+method, "application/json", bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	body, err = io.ReadAll(response.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("%s: %w", method, err)
	}
	return response.StatusCode, body, nil
}

// batch makes the same check n times in one call. It may be called concurrently.
func batch(address string, n int, e object) (decisions []decision, err error) {
	checks := make([]object, n)
	for i := range checks {
		checks[i] = object{"entries": []object{e}}
	}
	status, body, err := post(address, "LimitService/CheckBatch", object{"checks": checks})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Results []struct {
			Decision *decision
			Failure  *failure
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || status != http.StatusOK || len(answer.Results) != n {
		return nil, fmt.Errorf("a batch of %d: status %d: %s", n, status, body)
	}
	for i, r := range answer.Results {
		if r.Decision == nil {
			return nil, fmt.Errorf("check %d of the batch: %+v", i, r.Failure)
		}
		decisions = append(decisions, *r.Decision)
	}
	return decisions, nil
}
