package main

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// sink is the resource stint_sink: where events go to. Only its API key can be changed: another sink takes its place.
type sink struct{ configured }

type sinkModel struct {
	Name   types.String `tfsdk:"name"`
	Kind   types.String `tfsdk:"kind"`
	URL    types.String `tfsdk:"url"`
	Events types.Set    `tfsdk:"events"`
	Prefix types.String `tfsdk:"prefix"`
	APIKey types.String `tfsdk:"api_key"`
	Secret types.String `tfsdk:"secret"`
}

// Metadata implements resource.Resource.
func (*sink) Metadata(_ context.Context, _ resource.MetadataRequest, r *resource.MetadataResponse) {
	r.TypeName = "stint_sink"
}

// Schema implements resource.Resource.
func (*sink) Schema(_ context.Context, _ resource.SchemaRequest, r *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	r.Schema = schema.Schema{
		Description: "Where events go to: a webhook, Stripe, or a receiver of CloudEvents.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{Required: true, PlanModifiers: replace},
			"kind": schema.StringAttribute{Required: true, PlanModifiers: replace, Description: "webhook, stripe or cloudevents."},
			"url":  schema.StringAttribute{Optional: true, PlanModifiers: replace, Description: "Where events are posted to; absent for stripe."},
			"events": schema.SetAttribute{Required: true, ElementType: types.StringType, PlanModifiers: []planmodifier.Set{setplanmodifier.RequiresReplace()},
				Description: "threshold, usage, spike."},
			"prefix":  schema.StringAttribute{Optional: true, PlanModifiers: replace, Description: "Not for webhooks: how the keys of customers begin."},
			"api_key": schema.StringAttribute{Optional: true, Sensitive: true, Description: "Not for webhooks. It cannot be read back."},
			"secret": schema.StringAttribute{Computed: true, Sensitive: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Description: "What signatures of a webhook are verified with; empty for the other kinds, and after an import."},
		},
	}
}

// Create implements resource.Resource.
func (s *sink) Create(ctx context.Context, q resource.CreateRequest, r *resource.CreateResponse) {
	var m sinkModel
	r.Diagnostics.Append(q.Plan.Get(ctx, &m)...)
	if r.Diagnostics.HasError() {
		return
	}
	answer, err := call(ctx, s.sinks.Create, &stintv1.CreateSinkRequest{Name: m.Name.ValueString(), Kind: m.Kind.ValueString(),
		Url: m.URL.ValueString(), Events: texts(m.Events), ApiKey: m.APIKey.ValueString(), Prefix: m.Prefix.ValueString()})
	if failed(&r.Diagnostics, "The sink", err) {
		return
	}
	m.Secret = types.StringValue(answer.Secret)
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

// Read implements resource.Resource.
func (s *sink) Read(ctx context.Context, q resource.ReadRequest, r *resource.ReadResponse) {
	var m sinkModel
	r.Diagnostics.Append(q.State.Get(ctx, &m)...)
	answer, err := call(ctx, s.sinks.List, &stintv1.ListSinksRequest{})
	if failed(&r.Diagnostics, "The sink", err) {
		return
	}
	at := slices.IndexFunc(answer.Sinks, func(other *stintv1.Sink) bool { return other.Name == m.Name.ValueString() })
	if at < 0 {
		r.State.RemoveResource(ctx)
		return
	}
	found := answer.Sinks[at]
	m.Kind, m.Events, m.Prefix = types.StringValue(found.Kind), textsOf(found.Events), textOf(found.Prefix)
	if m.Kind.ValueString() != "stripe" { // whose URL is Stripe's own
		m.URL = textOf(found.Url)
	}
	if m.Secret.IsNull() {
		m.Secret = types.StringValue("")
	}
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

// Update implements resource.Resource: a new API key.
func (s *sink) Update(ctx context.Context, q resource.UpdateRequest, r *resource.UpdateResponse) {
	var m sinkModel
	r.Diagnostics.Append(q.Plan.Get(ctx, &m)...)
	if r.Diagnostics.HasError() {
		return
	}
	_, err := call(ctx, s.sinks.Rotate, &stintv1.RotateSinkRequest{Name: m.Name.ValueString(), ApiKey: m.APIKey.ValueString()})
	if failed(&r.Diagnostics, "The sink", err) {
		return
	}
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

// Delete implements resource.Resource.
func (s *sink) Delete(ctx context.Context, q resource.DeleteRequest, r *resource.DeleteResponse) {
	var m sinkModel
	r.Diagnostics.Append(q.State.Get(ctx, &m)...)
	_, err := call(ctx, s.sinks.Delete, &stintv1.DeleteSinkRequest{Name: m.Name.ValueString()})
	failed(&r.Diagnostics, "The sink", err)
}

// ImportState implements resource.ResourceWithImportState. The id is the name; secrets stay unknown.
func (*sink) ImportState(ctx context.Context, q resource.ImportStateRequest, r *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("name"), q, r)
}
