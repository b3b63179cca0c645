package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// fate is what a client learned from an attempt.
type fate int

const (
	admitted fate = iota
	denied
	refused // certainly not counted: the server answered so, or the request was never sent
	unknown // counted once or not at all
	wrong   // an answer that a correct server never gives
)

// answer is the outcome of one attempt. Only a decision has the numbers.
type answer struct {
	fate     fate
	code     string // why there is no decision
	message  string
	broke    error // what broke the connection; nil if nothing did
	used     uint64
	quota    uint64
	at       int64 // shard time of the decision, microseconds since the Unix epoch
	place    place
	replayed bool
	id       string // the decision's
}

// place is the position of a decision in its shard's log.
type place struct {
	shard      uint32
	epoch, seq uint64
}

// before orders the places of one shard.
func (p place) before(q place) bool { return p.epoch < q.epoch || p.epoch == q.epoch && p.seq < q.seq }

func (p place) String() string {
	return fmt.Sprintf("shard %d, epoch %d, entry %d", p.shard, p.epoch, p.seq)
}

// caller sends requests to the nodes. It may be used concurrently.
type caller struct {
	http      *http.Client
	addresses []string
	namespace string
	token     string
}

func newCaller(p Plan) *caller {
	if p.dial == nil {
		p.dial = (&net.Dialer{Timeout: time.Second}).DialContext
	}
	return &caller{addresses: p.Addresses, namespace: p.Namespace, token: p.Token,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: p.Workers + 1, DisableCompression: true,
			TLSClientConfig: p.TLS.Clone(), DialContext: p.dial}}}
}

func (c *caller) close() { c.http.CloseIdleConnections() }

type entryBody struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
}

type checkBody struct {
	Namespace string      `json:"namespace,omitempty"`
	Entries   []entryBody `json:"entries"`
	Mode      string      `json:"mode,omitempty"`
	ID        string      `json:"idempotencyId,omitempty"`
}

// number is a 64-bit number, which Connect's JSON writes as a string.
type number uint64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(text []byte) error {
	value, err := strconv.ParseUint(string(bytes.Trim(text, `"`)), 10, 64)
	*n = number(value)
	return err
}

type limitBody struct {
	Quota, Used number
}

type decisionBody struct {
	Allowed   bool
	Replayed  bool
	ID        string `json:"decisionId"`
	DecidedAt time.Time
	Limits    []limitBody
	Positions []struct {
		Shard      uint32
		Epoch, Seq number
	}
}

type failureBody struct {
	Code, Message string
	Details       []struct {
		Debug struct{ MaybeApplied bool }
	}
}

// check sends one check to one node, once.
func (c *caller) check(ctx context.Context, node int, k *key, id, mode string) answer {
	var reply struct{ Decision decisionBody }
	a := c.call(ctx, node, "LimitService/Check", checkBody{Namespace: c.namespace,
		Entries: []entryBody{{k.policy, k.name}}, ID: id, Mode: mode}, &reply)
	if a.fate != admitted {
		return a
	}
	d := reply.Decision
	if len(d.Limits) != 1 || len(d.Positions) != 1 {
		return answer{fate: wrong, message: fmt.Sprintf("a decision with %d limits and %d positions, want one of each",
			len(d.Limits), len(d.Positions))}
	}
	p := d.Positions[0]
	a = answer{fate: denied, used: uint64(d.Limits[0].Used), quota: uint64(d.Limits[0].Quota), at: d.DecidedAt.UnixMicro(),
		place: place{p.Shard, uint64(p.Epoch), uint64(p.Seq)}, replayed: d.Replayed, id: d.ID}
	if d.Allowed {
		a.fate = admitted
	}
	return a
}

// used reads a counter.
func (c *caller) used(ctx context.Context, node int, k *key) (uint64, error) {
	var reply struct{ Limits []limitBody }
	a := c.call(ctx, node, "LimitService/Get", checkBody{Namespace: c.namespace, Entries: []entryBody{{k.policy, k.name}}}, &reply)
	if a.fate != admitted {
		return 0, fmt.Errorf("%s: %s", a.code, a.message)
	}
	if len(reply.Limits) != 1 {
		return 0, fmt.Errorf("%d limits, want one", len(reply.Limits))
	}
	return uint64(reply.Limits[0].Used), nil
}

// call makes one call. The fate admitted means that an answer was read.
func (c *caller) call(ctx context.Context, node int, method string, message, reply any) answer {
	body, err := json.Marshal(message)
	if err != nil {
		panic(err) // the messages of this package can always be marshaled
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.addresses[node]+"/stint.v1."+method, bytes.NewReader(body))
	if err != nil {
		return answer{fate: wrong, message: err.Error()}
	}
	request.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	if deadline, ok := ctx.Deadline(); ok {
		millis := max(time.Until(deadline).Milliseconds(), 1)
		request.Header.Set("Connect-Timeout-Ms", strconv.FormatInt(millis, 10))
	}
	response, err := c.http.Do(request)
	if err != nil {
		return lost(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return lost(err)
	}
	if response.StatusCode != http.StatusOK {
		return refusal(response.StatusCode, text)
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return answer{fate: wrong, message: fmt.Sprintf("%v in %.200q", err, text)}
	}
	return answer{fate: admitted}
}

// lost is the answer for a broken call: without a connection nothing was sent.
func lost(err error) answer {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		return answer{fate: refused, code: "connection", message: err.Error(), broke: err}
	}
	return answer{fate: unknown, code: "connection", message: err.Error(), broke: err}
}

// refusal returns the fate of an error by its code, according to S9.
func refusal(status int, text []byte) answer {
	var f failureBody
	if json.Unmarshal(text, &f) != nil || f.Code == "" {
		return answer{fate: wrong, message: fmt.Sprintf("status %d and no error of Connect's: %.200q", status, text)}
	}
	a := answer{fate: wrong, code: f.Code, message: f.Message}
	switch f.Code {
	case "unavailable":
		a.fate = refused
	case "aborted", "deadline_exceeded", "canceled":
		a.fate = unknown
	}
	for _, d := range f.Details {
		if d.Debug.MaybeApplied && a.fate == refused {
			a.fate = unknown
		}
	}
	return a
}
