package node

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/peer"
	"github.com/stint-io/stint/internal/observe/decisions"
	"github.com/stint-io/stint/internal/sleep"
)

// watcher implements api.Watcher. It holds no state; all methods may be called concurrently.
type watcher struct {
	view     *clusterView
	peers    *peers
	reporter *reporter
}

var _ api.Watcher = (*watcher)(nil)

const (
	// watchAgain is the time between two tries to hear a node, and between two looks at the table.
	watchAgain = time.Second
	// watchFilterBytes is the longest filter that is sent to other nodes: a question has at most 4 KiB.
	watchFilterBytes = 2 << 10
)

// followed is a node that this one asks for its decisions.
type followed struct {
	cancel    context.CancelFunc
	tried, up atomic.Bool // whether its decisions were asked for, and come by now
}

// Join implements api.Watcher. It has a connection of its own to every listed node. missing is called first when all
// have been tried.
func (w *watcher) Join(ctx context.Context, f *decisions.Filter, into *decisions.Reader, missing func(nodes []string)) {
	var following sync.WaitGroup
	defer following.Wait()
	all, news := make(map[string]*followed), newNotifier()
	tick := time.Tick(watchAgain)
	var told []string
	for begun := false; ; {
		listed := w.others()
		for node, one := range all {
			if !slices.Contains(listed, node) {
				one.cancel()
				delete(all, node)
			}
		}
		for _, node := range listed {
			if all[node] == nil {
				one := &followed{}
				var its context.Context
				its, one.cancel = context.WithCancel(ctx) // ends with ctx at the latest
				all[node] = one
				following.Go(func() { w.follow(its, node, f, into, one, news) })
			}
		}
		now, tried := []string{}, true
		for node, one := range all {
			if tried = tried && one.tried.Load(); !one.up.Load() {
				now = append(now, node)
			}
		}
		slices.Sort(now)
		if tried && (!begun || !slices.Equal(now, told)) {
			begun, told = true, now
			missing(now)
		}
		select {
		case <-news:
		case <-tick:
		case <-ctx.Done():
			return
		}
	}
}

// others lists the nodes that are not this one and belong to the cluster.
func (w *watcher) others() (nodes []string) {
	if !w.peers.hasJoined() {
		return nil
	}
	for _, node := range w.view.others() {
		nodes = append(nodes, node.ID)
	}
	return nodes
}

// follow has one node send its decisions, again and again, until ctx ends. It notifies news when that begins or ends.
func (w *watcher) follow(
	ctx context.Context, node string, f *decisions.Filter, into *decisions.Reader, one *followed, news notifier,
) {
	tell := func(up bool) {
		one.up.Store(up)
		one.tried.Store(true)
		news.notify()
	}
	for ctx.Err() == nil {
		w.hear(ctx, node, f, into, func() { tell(true) })
		tell(false)
		sleep.For(ctx, watchAgain)
	}
}

// hear has one node send its decisions until that ends. It calls begun when the node sends them.
func (w *watcher) hear(ctx context.Context, node string, f *decisions.Filter, into *decisions.Reader, begun func()) {
	question := w.reporter.question() // with its versions, so that a node that knows no Watch sends no documents
	question.Watch = sentFilter(f)
	// How it ends is of no interest: the node is missing then.
	_ = w.peers.onAsk(ctx, node, func(conn net.Conn) error {
		return peer.Watch(conn, question, begun, func(batch *decisions.Batch) {
			into.Miss(batch.Missed)
			for _, e := range batch.Events {
				if e != nil && f.Wants(e) {
					into.Push(e)
				}
			}
		})
	})
}

// sentFilter is a filter as it is sent to other nodes: a long one asks for more than it wants.
func sentFilter(f *decisions.Filter) *decisions.Filter {
	if text, err := json.Marshal(f); err == nil && len(text) <= watchFilterBytes {
		return f
	}
	return &decisions.Filter{Namespace: f.Namespace, Kinds: f.Kinds}
}
