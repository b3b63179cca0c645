package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stint-io/stint/actor"
	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/keyhash"
	"github.com/stint-io/stint/internal/observe/top"
	"github.com/stint-io/stint/shard"
)

// topWithin bounds how long a node gathers what its shards know. The answer must reach the asker within 2 s (peer.Ask).
const topWithin = time.Second

// topReader implements api.TopReader. It holds no state; all methods may be called concurrently.
type topReader struct {
	view     *clusterView
	counted  *topCounts
	peers    *peers
	reporter *reporter
}

var _ api.TopReader = (*topReader)(nil)

// Top implements api.TopReader. It asks every listed node that is not removed over a connection of its own, all at
// once.
func (t *topReader) Top(ctx context.Context, q *top.Query) (answer top.Answer, missing []string, err error) {
	if !t.view.hasTable() {
		return answer, nil, errNoTable
	}
	counts := []top.Counts{t.counted.read(ctx, q)}
	var mu sync.Mutex // guards counts and missing
	each(t.view.others(), func(node placement.Node) {
		report, err := t.ask(ctx, node.ID, q)
		mu.Lock()
		defer mu.Unlock()
		if err != nil || report.Top == nil {
			missing = append(missing, node.ID)
		} else {
			counts = append(counts, *report.Top)
		}
	})
	slices.Sort(missing)
	return top.Join(q, counts), missing, nil
}

// ask asks one node.
func (t *topReader) ask(ctx context.Context, node string, q *top.Query) (report placement.Report, err error) {
	if !t.peers.hasJoined() {
		return report, errNoTable
	}
	question := t.reporter.question() // with its versions, so that a node that knows no Top sends no documents
	question.Top = q
	return t.peers.askApart(ctx, node, question)
}

// HideKey implements api.TopReader.
func (t *topReader) HideKey(namespace, key string) (hash string, ok bool) {
	secret, ok := t.view.shownSecret()
	if !ok {
		return "", false
	}
	return keyhash.Shown(secret, namespace, key), true
}

// topCounts is what this node knows of the keys that stand out. It holds no state; read may be called concurrently.
type topCounts struct {
	replicas *replicaSet
	repeats  *repeatedDenials
	traffic  func() []top.Traffic
}

// read returns what the shards that this node owns know, and what this node has repeated.
func (c *topCounts) read(ctx context.Context, q *top.Query) top.Counts {
	var parts []top.Part
	for _, r := range c.replicas.all() {
		if r.Shard == shard.System {
			continue
		}
		of, _ := r.actor.Top(ctx, q)
		parts = append(parts, of...)
	}
	counts := top.Collect(q, parts, c.repeats.read(q)) //mutant:repeats-unreported
	if q.Traffic {
		counts.Traffic = c.traffic()
	}
	return counts
}

// repeatedDenials counts the denials that this node repeats without asking the owners of the keys (deny_cache). Each is
// counted once: on the node that has repeated it. All methods may be called concurrently; none holds the lock for long.
type repeatedDenials struct {
	now func() time.Time

	mu    sync.Mutex
	board *top.Board // guarded by mu
}

func newRepeatedDenials(now func() time.Time, budget *top.Budget) *repeatedDenials {
	return &repeatedDenials{now: now, board: top.NewBoard(budget, now().UnixMicro())}
}

// count counts one repeated denial.
func (p *repeatedDenials) count(r *shard.Request, d *shard.Decision) {
	now := p.now().UnixMicro()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.board.Advance(now)
	actor.CountKeys(p.board, r, d)
}

func (p *repeatedDenials) read(q *top.Query) []top.Part {
	now := p.now().UnixMicro()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.board.Read(q, now)
}
