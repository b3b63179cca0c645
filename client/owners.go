package client

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/shard/placement"
)

const (
	learnEvery  = 5 * time.Second        // who owns what
	learnWithin = 2 * time.Second        // one answer to that
	learnPause  = 100 * time.Millisecond // between two questions, whatever fails
	shunFor     = 10 * time.Second       // an address that could not be reached
	systemShard = 1<<32 - 1
)

// owners is what the client knows of who owns what. It may be wrong: a node that does not own a key sends the request on.
type owners struct {
	known atomic.Pointer[[]string] // base URL of each shard's owner, "" unknown; nil: nothing is known yet
	asked chan struct{}            // somebody found out that it is wrong
	shun  atomic.Pointer[shunned]
}

// shunned is an address that could not be reached.
type shunned struct {
	url   string
	until time.Time
}

func (o *owners) ask() {
	select {
	case o.asked <- struct{}{}:
	default:
	}
}

// keepOwners learns who owns what, now and then and when it was seen to be wrong, until the client is closed.
func (c *Client) keepOwners() {
	for turn := 0; ; turn++ {
		c.learn(c.seeds[turn%len(c.seeds)])
		next := time.NewTimer(learnEvery)
		select {
		case <-next.C:
		case <-c.owners.asked:
		case <-c.closing.Done():
		}
		next.Stop()
		pause := time.NewTimer(learnPause)
		select {
		case <-pause.C:
		case <-c.closing.Done():
			pause.Stop()
			return
		}
	}
}

// learn asks one node. If it does not answer, what was known stays.
func (c *Client) learn(from string) {
	ctx, cancel := context.WithTimeout(c.closing, learnWithin)
	defer cancel()
	status, err := stintv1connect.NewClusterServiceClient(c.http, from).Status(ctx,
		connect.NewRequest(&stintv1.StatusRequest{}))
	if err != nil {
		c.owners.ask() // the next address
		return
	}
	scheme, _, _ := strings.Cut(from, "://")
	urls := make(map[string]string)
	for _, n := range status.Msg.Nodes {
		if n.ApiAddr != "" {
			urls[n.Id] = scheme + "://" + n.ApiAddr
		}
	}
	var known []string
	for _, s := range status.Msg.Shards {
		if s.Id == systemShard {
			continue
		}
		for int(s.Id) >= len(known) {
			known = append(known, "")
		}
		known[s.Id] = urls[s.Owner]
	}
	if len(known) > 0 {
		c.owners.known.Store(&known)
	}
}

// route chooses the node to ask: the owner of the request's first key, or if that is unknown or could not be reached, one
// of the addresses that the client was given.
func (c *Client) route(r *stintv1.CheckRequest, attempt int) (*node, error) {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return nil, &Error{Code: connect.CodeCanceled.String(), Message: "the client is closed"}
	}
	if known := c.owners.known.Load(); known != nil && len(r.GetEntries()) > 0 {
		namespace := r.Namespace
		if namespace == "" {
			namespace = placement.DefaultNamespace
		}
		url := (*known)[placement.Of(namespace, r.Entries[0].GetKey(), uint32(len(*known)))]
		if url != "" && !c.owners.shuns(url) {
			return c.node(url), nil
		}
	}
	return c.node(c.seed(attempt)), nil
}

// seed is the attempt-th of the addresses that the client was given, or the one behind it if that is shunned: as many
// attempts as there are addresses come to all of them.
func (c *Client) seed(attempt int) string {
	url := c.seeds[attempt%len(c.seeds)]
	if c.owners.shuns(url) {
		url = c.seeds[(attempt+1)%len(c.seeds)]
	}
	return url
}

func (o *owners) shuns(url string) bool {
	s := o.shun.Load()
	return s != nil && s.url == url && time.Now().Before(s.until)
}

// unreached notes that an address could not be reached, and has the owners learned anew.
func (o *owners) unreached(url string) {
	o.shun.Store(&shunned{url, time.Now().Add(shunFor)})
	o.ask()
}
