package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/client"
)

// cluster is what resources call.
type cluster struct {
	policies stintv1connect.PolicyServiceClient
	observe  stintv1connect.ObserveServiceClient
	tokens   stintv1connect.TokenServiceClient
	sinks    stintv1connect.SinkServiceClient
}

// callWithin bounds each call.
const callWithin = 30 * time.Second

type stintProvider struct{}

func newProvider() provider.Provider { return stintProvider{} }

// Metadata implements provider.Provider.
func (stintProvider) Metadata(_ context.Context, _ provider.MetadataRequest, r *provider.MetadataResponse) {
	r.TypeName = "stint"
}

// Schema implements provider.Provider.
func (stintProvider) Schema(_ context.Context, _ provider.SchemaRequest, r *provider.SchemaResponse) {
	r.Schema = schema.Schema{Attributes: map[string]schema.Attribute{
		"address": schema.StringAttribute{Optional: true, Description: "Base URL of a node; else STINT_ADDR."},
		"token": schema.StringAttribute{Optional: true, Sensitive: true,
			Description: "A token of the cluster; else STINT_TOKEN. It is sent to https:// and to this machine only."},
		"ca_file": schema.StringAttribute{Optional: true,
			Description: "Authorities that the nodes' certificates must be from; else those of the system."},
	}}
}

// Configure implements provider.Provider.
func (stintProvider) Configure(ctx context.Context, q provider.ConfigureRequest, r *provider.ConfigureResponse) {
	var config struct {
		Address types.String `tfsdk:"address"`
		Token   types.String `tfsdk:"token"`
		CAFile  types.String `tfsdk:"ca_file"`
	}
	r.Diagnostics.Append(q.Config.Get(ctx, &config)...)
	if r.Diagnostics.HasError() {
		return
	}
	address := cmp.Or(config.Address.ValueString(), os.Getenv("STINT_ADDR"))
	token := cmp.Or(config.Token.ValueString(), os.Getenv("STINT_TOKEN"))
	checked, err := client.New(client.Config{Addresses: []string{address}, Token: token}) // it knows the rules for both
	if failed(&r.Diagnostics, "The address of the cluster", err) {
		return
	}
	checked.Close()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if name := config.CAFile.ValueString(); name != "" {
		pem, err := os.ReadFile(name)
		if failed(&r.Diagnostics, "The authorities", err) {
			return
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			r.Diagnostics.AddError("The authorities", name+" has no certificate")
			return
		}
	}
	h := &http.Client{Transport: bearer{token, transport}, Timeout: callWithin}
	r.ResourceData = &cluster{stintv1connect.NewPolicyServiceClient(h, address),
		stintv1connect.NewObserveServiceClient(h, address), stintv1connect.NewTokenServiceClient(h, address),
		stintv1connect.NewSinkServiceClient(h, address)}
}

// Resources implements provider.Provider.
func (stintProvider) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{newPolicies, newOverride, newToken, newSink}
}

// DataSources implements provider.Provider.
func (stintProvider) DataSources(context.Context) []func() datasource.DataSource { return nil }

// bearer adds a token to each request.
type bearer struct {
	token string
	base  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.base.RoundTrip(r)
}

// call makes a call without its envelope.
func call[Q, A any](
	ctx context.Context, method func(context.Context, *connect.Request[Q]) (*connect.Response[A], error), q *Q,
) (*A, error) {
	answer, err := method(ctx, connect.NewRequest(q))
	if err != nil {
		return nil, err
	}
	return answer.Msg, nil
}

// instantOf reads an instant, as in 2027-01-01T00:00:00Z.
func instantOf(text types.String) (*timestamppb.Timestamp, error) {
	if text.ValueString() == "" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text.ValueString())
	return timestamppb.New(t), err
}

// sameInstant returns an instant as the state writes it, so that another spelling is no difference.
func sameInstant(state types.String, t *timestamppb.Timestamp) types.String {
	if t == nil {
		return types.StringNull()
	}
	if old, err := instantOf(state); err == nil && old != nil && old.AsTime().Equal(t.AsTime()) {
		return state
	}
	return types.StringValue(t.AsTime().Format(time.RFC3339Nano))
}

// textOf returns null for the empty text, which is how the API says that there is none.
func textOf(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}

// textsOf returns a set of texts, or null for none.
func textsOf(texts []string) types.Set {
	if len(texts) == 0 {
		return types.SetNull(types.StringType)
	}
	values := make([]attr.Value, len(texts))
	for i, text := range texts {
		values[i] = types.StringValue(text)
	}
	return types.SetValueMust(types.StringType, values)
}

// texts reads a set of texts.
func texts(set types.Set) (all []string) {
	for _, value := range set.Elements() {
		all = append(all, value.(types.String).ValueString())
	}
	return all
}
