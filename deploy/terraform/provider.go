package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"os"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/client"
)

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
	h := &http.Client{Transport: bearer{token, transport}, Timeout: callWithin,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }} // with the token
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
