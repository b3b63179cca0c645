package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// listing has the flags of the commands that list keys.
type listing struct {
	Prefix    string `help:"Only keys that begin so." placeholder:"TEXT"`
	Policy    string `help:"Only keys of this policy." placeholder:"NAME"`
	Namespace string `help:"Default: the server's."`
	Count     int    `short:"n" help:"About how many; 0: all." default:"100"`
	Cursor    string `help:"Go on where an earlier list ended, which said so." placeholder:"TEXT"`
	asking
}

// keysCommand has the commands about stored keys.
type keysCommand struct {
	List   keysListCommand `cmd:"" default:"withargs" help:"List the keys of which something is kept."`
	Top    topCommand      `cmd:"" help:"Show which keys are asked about, denied and spent most."`
	Forget forgetCommand   `cmd:"" help:"Delete all data of one key (right to erasure)."`
}

type keysListCommand struct{ listing }

// Run lists keys.
func (c *keysListCommand) Run(s streams) error {
	return c.list(s, "keys", &stintv1.ListKeysRequest{}, "POLICY\tKEY\tOVERRIDE", func(k *stintv1.KeptKey) [][]any {
		return [][]any{{k.Policy, k.Key, overrideText(k.Override)}}
	})
}

type overrideListCommand struct{ listing }

// Run lists the keys with an override.
func (c *overrideListCommand) Run(s streams) error {
	return c.list(s, "override list", &stintv1.ListKeysRequest{Overrides: true}, "POLICY\tKEY\tOVERRIDE\tENDS",
		func(k *stintv1.KeptKey) [][]any {
			return [][]any{{k.Policy, k.Key, overrideText(k.Override), instantOr(k.GetOverride().GetExpiresAt(), "-")}}
		})
}

type leasesCommand struct{ listing }

// Run lists the leases.
func (c *leasesCommand) Run(s streams) error {
	return c.list(s, "leases", &stintv1.ListKeysRequest{Leases: true}, "POLICY\tKEY\tHOLDER\tUNITS\tUNTIL",
		func(k *stintv1.KeptKey) (rows [][]any) {
			for _, l := range k.Leases {
				rows = append(rows, []any{k.Policy, k.Key, holderText(l.Holder), l.Units, instant(l.EndsAt)})
			}
			return rows
		})
}

// holderText is the node of a holder, or the name of one outside the cluster.
func holderText(holder string) string {
	node, _, _ := strings.Cut(holder, "/")
	return node
}

// list follows the pages and prints them as one. request says which keys.
func (l *listing) list(
	s streams, what string, request *stintv1.ListKeysRequest, head string, rows func(*stintv1.KeptKey) [][]any,
) error {
	all := &stintv1.ListKeysResponse{NextCursor: l.Cursor}
	request.Namespace, request.Policy, request.Prefix = l.Namespace, l.Policy, l.Prefix
	err := pages(what, l.Count, func(size uint32) (more bool, rows int, err error) {
		request.Count, request.Cursor = size, all.NextCursor
		page, err := l.page(what, request)
		all.Keys, all.NextCursor = append(all.Keys, page.GetKeys()...), page.GetNextCursor()
		return all.NextCursor != "", len(all.Keys), err
	})
	if err != nil {
		return err
	}
	if l.json() {
		return printJSON(s, all)
	}
	var cells [][]any
	for _, k := range all.Keys {
		cells = append(cells, rows(k)...)
	}
	printTable(s, head, cells, func(row []any) []any { return row })
	s.tellMore(all.NextCursor)
	return nil
}

// page fetches one page. If a node refuses because it has no replica of a shard, page asks the others.
func (l *listing) page(what string, m *stintv1.ListKeysRequest) (*stintv1.ListKeysResponse, error) {
	answer, err := ask(l.remote, what, "", l.observe().ListKeys, m)
	if connect.CodeOf(err) != connect.CodeUnavailable || !connect.IsWireError(err) || l.DataDir != "" {
		return answer, err
	}
	status, unknown := l.status(what)
	if unknown != nil {
		return nil, err
	}
	for _, node := range l.answering(status) {
		other := l.remote
		other.Addr = node.url
		if answer, refused := ask(other, what, "", other.observe().ListKeys, m); refused == nil {
			return answer, nil
		}
	}
	return nil, err
}

// nodeAddress is the address of a node that answers.
type nodeAddress struct{ id, url string }

// answering lists the nodes that answer, according to the cluster.
func (r remote) answering(m *stintv1.StatusResponse) (nodes []nodeAddress) {
	scheme, _, _ := strings.Cut(r.urls()[0], "://") // a cluster has TLS on all its nodes or on none
	for _, n := range m.Nodes {
		if n.Alive && n.ApiAddr != "" && n.State != "removed" {
			nodes = append(nodes, nodeAddress{n.Id, scheme + "://" + n.ApiAddr})
		}
	}
	return nodes
}

// overrideText describes an override.
func overrideText(o *stintv1.Override) string {
	if o == nil {
		return "-"
	}
	var list []string
	if o.Tier != "" {
		list = append(list, "tier "+o.Tier)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Limits)) {
		l := o.Limits[name]
		for _, number := range []struct {
			name  string
			value *uint64
		}{{"quota", l.Quota}, {"refill", l.Refill}, {"rate", l.Rate}} {
			if number.value != nil {
				list = append(list, fmt.Sprintf("%s %s %d", name, number.name, *number.value))
			}
		}
	}
	return strings.Join(list, ", ")
}
