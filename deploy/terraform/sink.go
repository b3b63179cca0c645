package main

import (
	"context"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/setplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type sinkModel struct {
	Name   types.String `tfsdk:"name"`
	Kind   types.String `tfsdk:"kind"`
	URL    types.String `tfsdk:"url"`
	Events types.Set    `tfsdk:"events"`
	Prefix types.String `tfsdk:"prefix"`
	APIKey types.String `tfsdk:"api_key"`
	Secret types.String `tfsdk:"secret"`
}

// newSink returns the resource stint_sink: where events go to. Only its API key can be changed: another sink takes its
// place.
func newSink() resource.Resource {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	return &managedResource[sinkModel]{name: "sink", what: "The sink", create: createSink, read: readSink,
		update: rotateSink, delete: deleteSink, schema: schema.Schema{
			Description: "Where events go to: a webhook, Stripe, or a receiver of CloudEvents.",
			Attributes: map[string]schema.Attribute{
				"name": schema.StringAttribute{Required: true, PlanModifiers: replace},
				"kind": schema.StringAttribute{Required: true, PlanModifiers: replace,
					Description: "webhook, stripe or cloudevents."},
				"url": schema.StringAttribute{Optional: true, PlanModifiers: replace,
					Description: "Where events are posted to; absent for stripe."},
				"events": schema.SetAttribute{Required: true, ElementType: types.StringType,
					PlanModifiers: []planmodifier.Set{setplanmodifier.RequiresReplace()},
					Description:   "threshold, usage, spike."},
				"prefix": schema.StringAttribute{Optional: true, PlanModifiers: replace,
					Description: "Not for webhooks: how the keys of customers begin."},
				"api_key": schema.StringAttribute{Optional: true, Sensitive: true,
					Description: "Not for webhooks. It cannot be read back."},
				"secret": schema.StringAttribute{Computed: true, Sensitive: true,
					PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
					Description: "What signatures of a webhook are verified with; " +
						"empty for the other kinds, and after an import."},
			},
		}}
}

func createSink(ctx context.Context, c *cluster, m *sinkModel) error {
	answer, err := call(ctx, c.sinks.Create, &stintv1.CreateSinkRequest{
		Name:   m.Name.ValueString(),
		Kind:   m.Kind.ValueString(),
		Url:    m.URL.ValueString(),
		Events: texts(m.Events),
		ApiKey: m.APIKey.ValueString(),
		Prefix: m.Prefix.ValueString(),
	})
	m.Secret = types.StringValue(answer.GetSecret())
	return err
}

func readSink(ctx context.Context, c *cluster, m *sinkModel) (bool, error) {
	answer, err := call(ctx, c.sinks.List, &stintv1.ListSinksRequest{})
	at := slices.IndexFunc(answer.GetSinks(), func(other *stintv1.Sink) bool {
		return other.Name == m.Name.ValueString()
	})
	if at < 0 {
		return false, err
	}
	found := answer.Sinks[at]
	m.Kind, m.Events, m.Prefix = types.StringValue(found.Kind), textsOf(found.Events), textOf(found.Prefix)
	if m.Kind.ValueString() != "stripe" { // Stripe has a URL of its own
		m.URL = textOf(found.Url)
	}
	if m.Secret.IsNull() {
		m.Secret = types.StringValue("")
	}
	return true, nil
}

// rotateSink gives a sink a new API key.
func rotateSink(ctx context.Context, c *cluster, m, _ *sinkModel) error {
	_, err := call(ctx, c.sinks.Rotate, &stintv1.RotateSinkRequest{Name: m.Name.ValueString(),
		ApiKey: m.APIKey.ValueString()})
	return err
}

func deleteSink(ctx context.Context, c *cluster, m *sinkModel) error {
	_, err := call(ctx, c.sinks.Delete, &stintv1.DeleteSinkRequest{Name: m.Name.ValueString()})
	return err
}
