package main

import (
	"context"
	"strings"

	"connectrpc.com/connect"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// override is the resource stint_override: a tier or quotas of one key by one policy.
type override struct{ managedResource[overrideModel] }

type overrideModel struct {
	Namespace types.String         `tfsdk:"namespace"`
	Policy    types.String         `tfsdk:"policy"`
	Key       types.String         `tfsdk:"key"`
	Tier      types.String         `tfsdk:"tier"`
	Limits    map[string]tierModel `tfsdk:"limits"`
	ExpiresAt types.String         `tfsdk:"expires_at"`
}

type tierModel struct {
	Quota  types.Int64 `tfsdk:"quota"`
	Refill types.Int64 `tfsdk:"refill"`
	Rate   types.Int64 `tfsdk:"rate"`
}

func newOverride() resource.Resource {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	number := func(what string) schema.Int64Attribute {
		return schema.Int64Attribute{Optional: true, Description: what}
	}
	return &override{managedResource[overrideModel]{
		name:   "override",
		what:   "The override",
		create: putOverride,
		read:   readOverride,
		update: func(ctx context.Context, c *cluster, next, _ *overrideModel) error {
			return putOverride(ctx, c, next)
		},
		delete: deleteOverride,
		schema: schema.Schema{
			Description: "A tier or quotas of one key, in place of its policy's.",
			Attributes: map[string]schema.Attribute{
				"namespace": schema.StringAttribute{Optional: true, Computed: true,
					Default: stringdefault.StaticString("default"), PlanModifiers: replace},
				"policy": schema.StringAttribute{Required: true, PlanModifiers: replace},
				"key":    schema.StringAttribute{Required: true, PlanModifiers: replace},
				"tier": schema.StringAttribute{Optional: true,
					Description: "Tier of the policy; else its default tier."},
				"limits": schema.MapNestedAttribute{Optional: true,
					Description: "Numbers that replace the tier's, by the name of the limit.",
					NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
						"quota":  number("Units that fit."),
						"refill": number("For a token bucket: tokens that come back in one per."),
						"rate":   number("For GCRA: units admitted in one per."),
					}}},
				"expires_at": schema.StringAttribute{Optional: true,
					Description: "When it ends, as in 2027-01-01T00:00:00Z; else never."},
			},
		},
	}}
}

// putOverride puts an override in force.
func putOverride(ctx context.Context, c *cluster, m *overrideModel) error {
	ends, err := instantOf(m.ExpiresAt)
	if err != nil {
		return err
	}
	q := &stintv1.PutOverrideRequest{
		Namespace: m.Namespace.ValueString(),
		Policy:    m.Policy.ValueString(),
		Key:       m.Key.ValueString(),
		Tier:      m.Tier.ValueString(),
		ExpiresAt: ends,
		Note:      "by Terraform",
		Limits:    make(map[string]*stintv1.TierLimit),
	}
	for name, limit := range m.Limits {
		q.Limits[name] = &stintv1.TierLimit{Quota: unitsOf(limit.Quota), Refill: unitsOf(limit.Refill),
			Rate: unitsOf(limit.Rate)}
	}
	_, err = call(ctx, c.policies.PutOverride, q)
	return err
}

// findOverride returns the override of a key, or nil.
func findOverride(ctx context.Context, c *cluster, m *overrideModel) (*stintv1.Override, error) {
	q := &stintv1.ListKeysRequest{Namespace: m.Namespace.ValueString(), Policy: m.Policy.ValueString(),
		Prefix: m.Key.ValueString(), Overrides: true}
	for {
		answer, err := call(ctx, c.observe.ListKeys, q)
		if err != nil {
			return nil, err
		}
		for _, kept := range answer.Keys {
			if kept.Policy == m.Policy.ValueString() && kept.Key == m.Key.ValueString() {
				return kept.Override, nil
			}
		}
		if q.Cursor = answer.NextCursor; q.Cursor == "" {
			return nil, nil
		}
	}
}

// readOverride reads an override. Keys of a namespace that hashes them cannot be listed: what the state has stays.
func readOverride(ctx context.Context, c *cluster, m *overrideModel) (bool, error) {
	found, err := findOverride(ctx, c, m)
	if connect.CodeOf(err) == connect.CodeInvalidArgument {
		err = notice{err, "The override was not read", true}
	}
	if err != nil || found == nil {
		return false, err
	}
	m.Tier, m.ExpiresAt = textOf(found.Tier), sameInstant(m.ExpiresAt, found.ExpiresAt)
	limits := make(map[string]tierModel)
	for name, limit := range found.Limits {
		limits[name] = tierModel{int64Of(limit.Quota), int64Of(limit.Refill), int64Of(limit.Rate)}
	}
	if m.Limits != nil || len(limits) > 0 {
		m.Limits = limits
	}
	return true, nil
}

func deleteOverride(ctx context.Context, c *cluster, m *overrideModel) error {
	_, err := call(ctx, c.policies.DeleteOverride, &stintv1.DeleteOverrideRequest{Namespace: m.Namespace.ValueString(),
		Policy: m.Policy.ValueString(), Key: m.Key.ValueString(), Note: "by Terraform"})
	return err
}

// ImportState implements resource.ResourceWithImportState. The id is namespace/policy/key; the key may have slashes.
func (*override) ImportState(ctx context.Context, q resource.ImportStateRequest, r *resource.ImportStateResponse) {
	parts := strings.SplitN(q.ID, "/", 3)
	if len(parts) < 3 {
		r.Diagnostics.AddError("The id of an override", "it is namespace/policy/key, as in default/api/acme")
		return
	}
	for i, name := range []string{"namespace", "policy", "key"} {
		r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root(name), parts[i])...)
	}
}
