package bench

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Protocol is the protocol of the callers.
type Protocol string

// The protocols of the API.
const (
	JSON    Protocol = "json"    // Connect's JSON over HTTP/1.1, as with curl
	Connect Protocol = "connect" // Connect's binary messages over HTTP/1.1
	GRPC    Protocol = "grpc"    // gRPC over HTTP/2
	Stream  Protocol = "stream"  // CheckStream over gRPC: a stream for each caller, a message for each call
	Client  Protocol = "client"  // the Go client: the callers share one, which batches concurrent checks
)

// Plan defines which checks to send, how many and for how long. Its tags are the flags of the commands that run it.
type Plan struct {
	// Addresses are base URLs of the nodes, as in http://127.0.0.1:7400; the callers spread evenly over them.
	Addresses []string `kong:"-"`
	Token     string   `kong:"-"` // sent with every request; may be empty
	// TLS is for https:// addresses and their ports for gRPC; nil means the system's authorities.
	TLS   *tls.Config `kong:"-"`
	Fresh bool        `kong:"-"` // no key was used before: the audit also finds units that should have been admitted

	Policy      string        `help:"Policy to ask." placeholder:"NAME"`
	Namespace   string        `help:"Default: the server's."`
	Tier        string        `help:"Default: the policy's default tier."`
	Protocol    Protocol      `help:"json, connect (binary), grpc, stream (CheckStream over gRPC: a stream for each caller) or client (the Go client: one for all callers)." default:"json"`
	GRPCAddr    []string      `name:"grpc-addr" help:"grpc, stream: the nodes' ports for gRPC alone; --addr is still where their policies and metrics are. Default: --addr." placeholder:"HOST:PORT,..."`
	Callers     int           `help:"Calls under way at once." default:"64"`
	Connections int           `help:"grpc, stream: connections that the callers share. client: one to each node. The others have one per caller." default:"2"`
	Keys        int           `help:"Keys to spread over; 1: one hot key." default:"1"`
	KeyPrefix   string        `help:"Default: a fresh one for each run, so that the audit knows where every key started."`
	Batch       int           `help:"Checks per call: CheckBatch above 1; with stream in one message." default:"1"`
	Denied      int           `help:"Share of checks for keys that have nothing left, in percent." default:"0"`
	Cost        uint64        `help:"Units per check." default:"1"`
	Entries     int           `help:"Keys per check, all or nothing. They may live on several shards." default:"1"`
	Together    bool          `help:"With --entries: a {tag} places the keys of a check on one shard."`
	Walk        bool          `help:"Take the keys in turn instead of at random: a --count of --keys uses each once."`
	Duration    time.Duration `help:"How long. Default: 10s, unless --count is given."`
	Count       uint64        `help:"How many checks in all."`
	Rate        float64       `help:"Open loop: calls per second, whatever the answers do. Default: closed loop."`
	Timeout     time.Duration `help:"Of one call." default:"10s"`
}

const (
	keysMax    = 10_000_000 // seven digits, including the drained keys
	batchMax   = 1_000      // the server's limit
	callersMax = 16_384
	streamsMax = 1_000 // per connection: the server allows 1,024
)

// WithDefaults sets the defaults in the flags' help.
func (p Plan) WithDefaults() Plan {
	p.Protocol = cmp.Or(p.Protocol, JSON)
	p.Callers = cmp.Or(p.Callers, 64)
	p.Connections = max(min(cmp.Or(p.Connections, 2), p.Callers), len(p.Addresses))
	if p.Protocol == Stream { // streams stay open for the run, so one too many would wait forever
		p.Connections = max(p.Connections, (p.Callers+streamsMax-1)/streamsMax)
	}
	p.Keys = cmp.Or(p.Keys, 1)
	p.Batch = cmp.Or(p.Batch, 1)
	p.Cost = cmp.Or(p.Cost, 1)
	p.Entries = cmp.Or(p.Entries, 1)
	p.Timeout = cmp.Or(p.Timeout, 10*time.Second)
	if p.Duration == 0 && p.Count == 0 {
		p.Duration = 10 * time.Second
	}
	return p
}

// WithKeys returns the plan with a KeyPrefix of its own, unless it has one.
func (p Plan) WithKeys() Plan {
	if p.KeyPrefix == "" {
		p.KeyPrefix, p.Fresh = fmt.Sprintf("bench-%08x-", rand.Uint32()), true
	}
	return p
}

// Check returns an error that names the first invalid field. Run refuses such a plan with the same error.
func (p Plan) Check() error {
	p = p.WithDefaults()
	switch p.Protocol {
	case JSON, Connect, GRPC, Stream, Client:
	default:
		return fmt.Errorf("protocol: %q is none of json, connect, grpc, stream, client", p.Protocol)
	}
	if p.Policy == "" {
		return fmt.Errorf("policy: name the policy to ask")
	}
	if len(p.Addresses) == 0 {
		return fmt.Errorf("address: name a server to ask")
	}
	for _, address := range p.Addresses {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return fmt.Errorf("address: %q is not a URL such as http://127.0.0.1:7400", address)
		}
	}
	return p.CheckLoad()
}

// CheckLoad is Check for the fields of the load, without those of the server.
func (p Plan) CheckLoad() error {
	p = p.WithDefaults()
	for _, field := range []struct {
		name          string
		value, lo, hi int
	}{
		{"callers", p.Callers, 1, callersMax},
		{"connections", p.Connections, 1, callersMax},
		{"keys", p.Keys, 1, keysMax},
		{"batch", p.Batch, 1, batchMax},
		{"denied", p.Denied, 0, 100},
		{"entries", p.Entries, 1, 9},
	} {
		if field.value < field.lo || field.value > field.hi {
			return fmt.Errorf("%s: %d is not within %d..%d", field.name, field.value, field.lo, field.hi)
		}
	}
	if p.Cost > costMax {
		return fmt.Errorf("cost: %d is more than a request may spend (2^40)", p.Cost)
	}
	if p.Keys+p.drainedKeys() > keysMax {
		return fmt.Errorf("keys: %d and %d that are drained are more than %d", p.Keys, p.drainedKeys(), keysMax)
	}
	if p.Rate < 0 || p.Duration < 0 || p.Timeout < 0 {
		return fmt.Errorf("rate, duration and timeout cannot be negative")
	}
	return nil
}

// costMax is the most that a request may spend.
const costMax = 1 << 40

// drainedKeys is the number of keys drained before the run. Their numbers follow the others'.
func (p Plan) drainedKeys() int {
	if p.Denied == 0 {
		return 0
	}
	return min(p.Keys, 1_000)
}

// KeyName is the key of the first entry of a number's check.
func (p Plan) KeyName(number uint32) string { return p.entryKey(number, 0) }

// entryKey is the key of one entry of a number's check. Without a tag, the entries' shards are random.
func (p Plan) entryKey(number uint32, entry int) string {
	digits := strconv.Itoa(keysMax + int(number)) // all keys have the same length
	name := p.KeyPrefix + digits[1:]
	if p.Together {
		name = "{" + name + "}"
	}
	if entry > 0 {
		name += "/" + strconv.Itoa(entry)
	}
	return name
}

// grpcURL is the address of one of the shared connections of gRPC. A node has TLS on all its ports or on none.
func (p Plan) grpcURL(connection int) string {
	if len(p.GRPCAddr) == 0 {
		return p.Addresses[connection%len(p.Addresses)]
	}
	scheme, _, _ := strings.Cut(p.Addresses[0], "://")
	return (&url.URL{Scheme: scheme, Host: p.GRPCAddr[connection%len(p.GRPCAddr)]}).String()
}

// request returns a new check of a key, as programs make one: a client may still send it after its time is over.
func (p Plan) request(key uint32) *stintv1.CheckRequest {
	request := &stintv1.CheckRequest{Namespace: p.Namespace, Entries: make([]*stintv1.Entry, p.Entries)}
	for i := range request.Entries {
		request.Entries[i] = &stintv1.Entry{Policy: p.Policy, Key: p.entryKey(key, i), Tier: p.Tier}
		if p.Cost != 1 {
			request.Entries[i].Cost = &p.Cost
		}
	}
	return request
}
