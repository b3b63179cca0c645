package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/policy"
)

// Config selects the cluster to examine, and how to reach it.
type Config struct {
	Namespace string        // of the test key; "" means the server's default
	Through   string        // a page behind a proxy, on which a gate counts addresses; optional
	BackupAge time.Duration // the newest backup may be this old
	Timeout   time.Duration // of one question
	Nodes     []Node        // those to ask; never empty

	Limits   stintv1connect.LimitServiceClient          // of a node that answers
	Policies func(context.Context) (*policy.Set, error) // those in force
	Token    func(address string) (string, error)       // the token to send to an address, or ""
	Bare     http.RoundTripper                          // sends no token
	Stranger http.RoundTripper                          // sends neither token nor certificate
	Why      func(error) string                         // the cause of a failed call, for display
}

// Node is a node to ask. It need not answer.
type Node struct {
	Name, URL string // the name is the id, or the URL itself if an operator named that
	Here      bool   // only this machine reaches it at URL
	Limits    stintv1connect.LimitServiceClient
	Sinks     stintv1connect.SinkServiceClient
}

// doctor examines a cluster.
type doctor struct {
	Config
	findings []Finding
}

// Look makes all checks. status is the cluster's own report.
func Look(ctx context.Context, config Config, status *stintv1.StatusResponse) []Finding {
	d := &doctor{Config: config}
	if status.Partial {
		d.unknown("cluster", errors.New("this token or role may not see the state of the cluster"),
			"give it the operation observe")
	} else {
		d.cluster(status, time.Now())
	}
	d.identity(ctx)
	d.count(ctx)
	d.gates(ctx)
	d.sinksOf(ctx)
	return d.findings
}

func (d *doctor) add(check string, state Condition, found, do string) {
	d.findings = append(d.findings, Finding{check, state, found, do})
}

// fine records that a check found nothing wrong.
func (d *doctor) fine(check, format string, args ...any) {
	d.add(check, Fine, fmt.Sprintf(format, args...), "")
}

// fineSince records that a check found nothing, unless it has found something since.
func (d *doctor) fineSince(since int, check, text string) {
	if !slices.ContainsFunc(d.findings[since:], func(f Finding) bool { return f.Check == check }) {
		d.fine(check, "%s", text)
	}
}

// unknown records that a check could not be made.
func (d *doctor) unknown(check string, err error, do string) {
	d.add(check, Unknown, err.Error(), do)
}

// decide makes one check through a node.
func (d *doctor) decide(ctx context.Context, n Node, m *stintv1.CheckRequest) (*stintv1.Decision, error) {
	asking, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	answer, err := n.Limits.Check(asking, connect.NewRequest(m))
	if err != nil {
		return nil, err
	}
	return answer.Msg.GetDecision(), nil
}
