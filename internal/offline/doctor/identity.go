package doctor

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// identity checks whether the nodes authenticate requests, and whether others can read them on their way.
func (d *doctor) identity(ctx context.Context) {
	for _, n := range d.Nodes {
		d.stranger(ctx, n)
		if strings.HasPrefix(n.URL, "http://") && !n.Here {
			d.add("transport", Suspect, n.Name+" speaks plaintext at "+n.URL+": keys can be read on their way",
				"start the nodes with --api-cert and --api-key (stint tool certs makes them)")
		}
	}
}

// stranger asks a node without a token and without a certificate.
func (d *doctor) stranger(ctx context.Context, n Node) {
	const check = "verified identity"
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	client := stintv1connect.NewPolicyServiceClient(&http.Client{Transport: d.Stranger}, n.URL)
	_, err := client.List(ctx, connect.NewRequest(&stintv1.ListPoliciesRequest{}))
	switch code := connect.CodeOf(err); {
	case err == nil && n.Here:
		d.add(check, Suspect, fmt.Sprintf("%s authenticates no caller; only this machine reaches it at %s",
			n.Name, n.URL),
			"before others can reach it, make the first token: stint token create NAME --expires 90d --admin")
	case err == nil:
		d.add(check, Wrong, fmt.Sprintf("%s lets everyone who reaches %s do everything", n.Name, n.URL),
			"make the first token on its machine: stint token create NAME --expires 90d --admin --data-dir DIR")
	case connect.IsWireError(err) && (code == connect.CodeUnauthenticated || code == connect.CodePermissionDenied):
		d.fine(check, "%s refuses a caller without a token or a certificate", n.Name)
	default:
		where := n.Name
		if n.URL != n.Name {
			where += " at " + n.URL
		}
		d.add(check, Unknown, fmt.Sprintf("%s does not answer: %s", where, d.Why(err)),
			"name addresses in --addr that answer")
	}
}
