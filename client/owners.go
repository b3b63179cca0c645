package client

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/sleep"
	"github.com/stint-io/stint/shard/slot"
)

const (
	learnEvery  = 5 * time.Second        // refresh of the owners
	learnWithin = 2 * time.Second        // timeout of one refresh
	learnPause  = 100 * time.Millisecond // least time between two refreshes, also after failures
	shunFor     = 10 * time.Second       // how long an address is avoided after it could not be reached
)

// slotOwners is the base URL of the owner of each slot, or "" if unknown.
type slotOwners [slot.Count]string

// owners is the client's view of which node owns which slot. It may be out of date: a node that does not own a key
// forwards the request.
type owners struct {
	known atomic.Pointer[slotOwners] // nil until the first view; replaced, never changed
	asked chan struct{}              // holds a token when a refresh is due at once
	first atomic.Uint32              // index in Client.seeds of the address that calls begin with

	mu      sync.Mutex
	shunned map[string]time.Time // until when unreachable addresses are avoided; guarded by mu
}

// ask has the owners refreshed soon. It never blocks: one refresh serves all that ask before it.
func (o *owners) ask() {
	select {
	case o.asked <- struct{}{}:
	default:
	}
}

// keepOwners refreshes the owners until the client is closed: every learnEvery, and when a caller saw that the view is
// wrong.
func (c *Client) keepOwners() {
	for turn := 0; ; turn++ {
		c.learn(c.seeds[turn%len(c.seeds)])
		select {
		case <-time.After(learnEvery):
		case <-c.owners.asked:
		case <-c.closing.Done():
		}
		if !sleep.For(c.closing, learnPause) {
			return
		}
	}
}

// learn asks one node for the owners. On an error the former view stays.
func (c *Client) learn(from string) {
	ctx, cancel := context.WithTimeout(c.closing, learnWithin)
	defer cancel()
	status, err := stintv1connect.NewClusterServiceClient(c.http, from).Status(ctx,
		connect.NewRequest(&stintv1.StatusRequest{}))
	if err != nil {
		c.owners.ask() // try the next address
		return
	}
	scheme, _, _ := strings.Cut(from, "://")
	urls := make(map[string]string)
	for _, n := range status.Msg.Nodes {
		base := url.URL{Scheme: scheme, Host: n.ApiAddr}
		if n.ApiAddr != "" && (!c.token || maySendTokenTo(&base)) { // another node forwards
			urls[n.Id] = base.String()
		}
	}
	var known slotOwners
	for _, s := range status.Msg.Shards {
		for _, r := range s.Slots {
			for at := r.First; at <= r.Last && at < slot.Count; at++ {
				known[at] = urls[s.Owner]
			}
		}
	}
	if len(status.Msg.Shards) > 0 {
		c.owners.known.Store(&known)
	}
}

// route returns the node to ask: the owner of the request's first key, or one of the configured addresses if the owner
// is unknown or shunned: the one at this place, or a later one.
func (c *Client) route(r *stintv1.CheckRequest, place int) (*node, *Error) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, &Error{Code: connect.CodeCanceled.String(), Message: "the client is closed"}
	}
	// If a namespace hashes its keys, its shards are those of the hashes, which only nodes know. This then selects any
	// node, still spreading the load; it forwards.
	if known := c.owners.known.Load(); known != nil && len(r.GetEntries()) > 0 {
		url := known[slot.Of(cmp.Or(r.Namespace, slot.DefaultNamespace), r.Entries[0].GetKey())]
		if url != "" && !c.owners.shuns(url) {
			return c.node(url), nil
		}
	}
	return c.node(c.seed(place)), nil
}

// seed returns the configured address at a place, or the next one that is not shunned. As many places as there are
// addresses reach all of them.
func (c *Client) seed(place int) string {
	for i := range c.seeds {
		if url := c.seeds[(place+i)%len(c.seeds)]; !c.owners.shuns(url) {
			return url
		}
	}
	return c.seeds[place%len(c.seeds)]
}

// pass has the calls that follow begin with the configured address after one that has not answered. It may hang, and
// callers with little time do not stay until that shows.
func (c *Client) pass(url string) {
	if i := slices.Index(c.seeds, url); i >= 0 {
		c.owners.first.Store(uint32((i + 1) % len(c.seeds)))
	}
}

func (o *owners) shuns(url string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Now().Before(o.shunned[url])
}

// unreached shuns an address that could not be reached, or was lost, and asks for a refresh of the owners.
func (o *owners) unreached(url string) {
	now := time.Now()
	o.mu.Lock()
	maps.DeleteFunc(o.shunned, func(_ string, until time.Time) bool { return !now.Before(until) })
	o.shunned[url] = now.Add(shunFor)
	o.mu.Unlock()
	o.ask()
}
