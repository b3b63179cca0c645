package node

import (
	"context"
	"fmt"
	"slices"

	"github.com/stint-io/stint/api"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/shard"
)

// admin implements api.ClusterAdmin. It holds no state; all methods may be called concurrently.
type admin struct {
	adminBase
	replicas *replicaSet
	tokens   *tokens
	backup   *document[backupRecord]
}

var _ api.ClusterAdmin = (*admin)(nil)

// Ledger implements api.ClusterAdmin.
func (a *admin) Ledger(ctx context.Context) (string, error) { return a.documents.ledger(ctx) }

// History implements api.ClusterAdmin.
func (a *admin) History(ctx context.Context) ([]shard.AuditRecord, error) {
	ofTokens, err := a.documents.history(ctx, "token", a.tokens.names()...)
	if err != nil {
		return nil, err
	}
	ofSecrets, err := a.documents.history(ctx, "secret", placement.SecretsDocument)
	if err != nil {
		return nil, err
	}
	ofSinks, err := a.documents.history(ctx, "sink", notify.Document)
	return slices.Concat(ofTokens, ofSecrets, ofSinks), err
}

// ListKeys implements api.ClusterAdmin.
func (a *admin) ListKeys(_ context.Context, id shard.ID, q shard.Listing) (l shard.Listed, err error) {
	replica := a.replicas.of(id)
	if replica == nil {
		return l, &shard.Error{Code: shard.Unavailable,
			Message: fmt.Sprintf("node %s has no replica of shard %s: ask another", a.node, id)}
	}
	if stopped := replica.stopped.Load(); stopped != nil {
		return l, stopped
	}
	q.Founded = a.view.newestTable().FoundedSlots()
	received := false
	replica.group.View(func(s *shard.State) {
		if received = s.Epoch() > 0; received {
			l = s.List(q)
		}
	})
	if !received {
		return l, &shard.Error{Code: shard.Unavailable,
			Message: fmt.Sprintf("node %s's replica of shard %s has received nothing yet: ask another node",
				a.node, id)}
	}
	return l, nil
}

// Drain implements api.ClusterAdmin.
func (a *admin) Drain(ctx context.Context, node string, on, untilRestart bool) (left int, err error) {
	if node == "" {
		node = a.node
	}
	life := ""
	if untilRestart {
		if life = a.reporter.reports()[node].Life; life == "" {
			return 0, &shard.Error{Code: shard.Unavailable, Field: "until_restart",
				Message: fmt.Sprintf("node %s does not answer, so nobody would know when it has been restarted: "+
					"drain it without that", node)}
		}
	}
	err = a.change(ctx, node, func(t *placement.Table) (*placement.Table, error) {
		if on {
			return t.ApplyDrain(node, life), nil
		}
		return t.ApplyNodeState(node, placement.NodeActive), nil
	})
	if err != nil { // no count: this node may have no reports yet
		return 0, err
	}
	for _, r := range a.reporter.reports()[node].Replicas {
		if r.Open {
			left++
		}
	}
	return left, nil
}

// RemoveNode implements api.ClusterAdmin.
func (a *admin) RemoveNode(ctx context.Context, node string) error {
	return a.change(ctx, node, func(t *placement.Table) (*placement.Table, error) {
		if !slices.ContainsFunc(t.Nodes, func(o placement.Node) bool {
			return o.ID != node && (o.State == placement.NodeActive || o.State == placement.NodeDraining)
		}) {
			return nil, &shard.Error{Code: shard.Conflict, Field: "node_id",
				Message: fmt.Sprintf("%q is the last node: stop it instead", node)}
		}
		return t.ApplyNodeState(node, placement.NodeLeaving), nil
	})
}

// SetShards implements api.ClusterAdmin.
func (a *admin) SetShards(ctx context.Context, shards uint32, expected *uint64) error {
	return a.change(ctx, "", func(t *placement.Table) (*placement.Table, error) {
		switch {
		case expected == nil || *expected == t.Asked:
			return t.ApplyWanted(shards), nil
		case *expected+1 == t.Asked && t.WantedShards() == shards: // a copy of the request
			return nil, nil
		}
		return nil, &shard.Error{Code: shard.Conflict, Field: "expected_revision",
			Message: fmt.Sprintf("is %d, and by now %d is in force, in which the number of shards is %d; "+
				"nothing was changed",
				*expected, t.Asked, t.WantedShards())}
	})
}

// change applies a change to the table, of a listed node if it names one. It reads the table first: by an old one,
// there might seem to be nothing to change.
func (a *admin) change(ctx context.Context, node string, apply func(*placement.Table) (*placement.Table, error)) error {
	if !a.view.hasTable() {
		return errNoTable
	}
	err := a.view.table.update(ctx, nil, func(now known[placement.Table]) (*placement.Table, error) {
		if node != "" && now.value.Node(node) == nil {
			return nil, shard.Invalidf("node_id", "no node is named %q; stint status lists them", node)
		}
		return apply(now.value)
	})
	a.tellOthers()
	return err
}
