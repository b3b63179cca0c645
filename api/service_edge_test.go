package api

import (
	"net/http"
	"path"
	"slices"
	"testing"

	"connectrpc.com/connect"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/shard"
)

type upstreamOf func(*http.Request)

func (u upstreamOf) RoundTrip(r *http.Request) (*http.Response, error) {
	u(r)
	return nil, &shard.Error{Code: shard.Unavailable, Message: "no node is here"}
}

// An edge passes a change by hand on between two ends of its own leases of the key. What a client leases is its own.
func TestAChangePassedOnEndsTheLeasesOfItsKey(t *testing.T) {
	var said []string
	c := Config{Upstream: upstreamOf(func(r *http.Request) { said = append(said, path.Base(r.URL.Path)) }),
		EndLeases: func(namespace, policy, key string) { said = append(said, namespace+"/"+policy+"/"+key) }}
	d, ctx := registry{}.passing(&c), (&exchange{}).within(t.Context())
	expect := func(want ...string) {
		t.Helper()
		if !slices.Equal(said, want) {
			t.Errorf("%q, want %q", said, want)
		}
		said = nil
	}
	passOn[stintv1.AdjustRequest, stintv1.AdjustResponse](d, stintv1connect.LimitServiceAdjustProcedure)(ctx,
		&stintv1.AdjustRequest{Namespace: "n", Policy: "p", Key: "k"})
	expect("n/p/k", "Adjust", "n/p/k")
	passOn[stintv1.PutOverrideRequest, stintv1.PutOverrideResponse](d,
		stintv1connect.PolicyServicePutOverrideProcedure)(ctx, &stintv1.PutOverrideRequest{Policy: "p", Key: "k"})
	expect("default/p/k", "PutOverride", "default/p/k")
	passOn[stintv1.DeleteOverrideRequest, stintv1.DeleteOverrideResponse](d,
		stintv1connect.PolicyServiceDeleteOverrideProcedure)(ctx, &stintv1.DeleteOverrideRequest{Policy: "p", Key: "k"})
	expect("default/p/k", "DeleteOverride", "default/p/k")
	passOn[stintv1.ForgetRequest, stintv1.ForgetResponse](d,
		stintv1connect.LimitServiceForgetProcedure)(ctx, &stintv1.ForgetRequest{Key: "k"})
	expect("default//k", "Forget", "default//k")
	passOn[stintv1.LeaseRequest, stintv1.LeaseResponse](d, stintv1connect.LimitServiceLeaseProcedure)(ctx,
		&stintv1.LeaseRequest{Policy: "p", Key: "k", Returned: 1})
	expect("Lease")
}

// An edge has nothing to send, and says so: waiting does not help.
func TestAnEdgeSendsNoBackup(t *testing.T) {
	c := &backupCall{}
	err := clusterService{}.backup(t.Context(), c, nil)
	if got := codeOf(err); got != connect.CodeUnimplemented || err.Error() != "an edge keeps no shard: ask a node" {
		t.Errorf("%v: %v", got, err)
	}
}
