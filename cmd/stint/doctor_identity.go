package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// identity looks whether the nodes ask who sends a request, and whether others can read it on its way.
func (d *doctor) identity(ctx context.Context) {
	for _, n := range d.nodes {
		d.stranger(ctx, n)
		if u, err := url.Parse(n.url); err == nil && u.Scheme == "http" && !onThisMachine(u) {
			d.add("transport", isSuspect, n.name+" speaks plaintext at "+n.url+": keys can be read on their way",
				"start the nodes with --api-cert and --api-key (stint tool certs makes them)")
		}
	}
}

// stranger asks a node without a token and without a certificate.
func (d *doctor) stranger(ctx context.Context, n site) {
	const check = "verified identity"
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	trust := d.trust
	trust.Cert, trust.CertKey = "", ""
	client := stintv1connect.NewPolicyServiceClient(&http.Client{Transport: leavesTime{trust.transport()}}, n.url)
	_, err := client.List(ctx, connect.NewRequest(&stintv1.ListPoliciesRequest{}))
	u, _ := url.Parse(n.url) // a node's address, or one that the flags were validated with
	switch code := connect.CodeOf(err); {
	case err == nil && u != nil && onThisMachine(u):
		d.add(check, isSuspect, fmt.Sprintf("%s asks nobody who they are; only this machine reaches it at %s", n.name, u.Host),
			"before others can reach it, make the first token: stint token create NAME --expires 90d --admin")
	case err == nil:
		d.add(check, isWrong, fmt.Sprintf("%s lets everybody do everything who reaches %s", n.name, n.url),
			"make the first token on its machine: stint token create NAME --expires 90d --admin --data-dir DIR")
	case connect.IsWireError(err) && (code == connect.CodeUnauthenticated || code == connect.CodePermissionDenied):
		d.fine(check, "%s refuses a caller without a token or a certificate", n.name)
	case tlsProblem(err) != "":
		d.add(check, isUnknown, n.name+": "+tlsProblem(err), "")
	default:
		where := n.name
		if n.url != n.name {
			where += " at " + n.url
		}
		d.add(check, isUnknown, fmt.Sprintf("%s does not answer: %v", where, innermost(err)), "name addresses in --addr that answer")
	}
}
