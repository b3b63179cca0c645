package main

import (
	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// keyListing has the flags of the commands that list keys.
type keyListing struct {
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

type keysListCommand struct{ keyListing }

// Run lists keys.
func (c *keysListCommand) Run(s streams) error {
	return c.list(s, "keys", &stintv1.ListKeysRequest{}, "POLICY\tKEY\tOVERRIDE", func(k *stintv1.KeptKey) [][]any {
		return [][]any{{k.Policy, k.Key, overrideText(k.Override)}}
	})
}

// list follows the pages and prints them as one. request says which keys.
func (l *keyListing) list(
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
func (l *keyListing) page(what string, m *stintv1.ListKeysRequest) (*stintv1.ListKeysResponse, error) {
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
