package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/stint-io/stint/api"
	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
)

// policies is the resource stint_policies: the whole policies file. A cluster has one.
type policies struct{ managedResource[policiesModel] }

type policiesModel struct {
	YAML    types.String `tfsdk:"yaml"`
	Rekey   types.Bool   `tfsdk:"rekey"`
	Version types.Int64  `tfsdk:"version"`
}

func newPolicies() resource.Resource {
	return &policies{managedResource[policiesModel]{name: "policies", what: "The policies", read: readPolicies,
		create: func(ctx context.Context, c *cluster, m *policiesModel) error { return applyPolicies(ctx, c, m, nil) },
		update: updatePolicies, delete: keepPolicies, schema: schema.Schema{
			Description: "The policies file, with its gates, namespaces and Envoy rules. It is the whole set: " +
				"what is not in it ends.",
			Attributes: map[string]schema.Attribute{
				"yaml": schema.StringAttribute{Required: true, Description: "The text of the file."},
				"rekey": schema.BoolAttribute{Optional: true,
					Description: "Namespaces may begin or stop to hash their keys: all of them are new keys then."},
				"version": schema.Int64Attribute{Computed: true, Description: "Version in force.",
					PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()}},
			},
		}}}
}

// ValidateConfig implements resource.ResourceWithValidateConfig: a wrong file fails the plan, with its line.
func (*policies) ValidateConfig(
	ctx context.Context, q resource.ValidateConfigRequest, r *resource.ValidateConfigResponse,
) {
	var text types.String
	r.Diagnostics.Append(q.Config.GetAttribute(ctx, path.Root("yaml"), &text)...)
	if text.IsUnknown() || r.Diagnostics.HasError() {
		return
	}
	if _, err := policy.Parse("yaml", []byte(text.ValueString())); err != nil {
		r.Diagnostics.AddAttributeError(path.Root("yaml"), "The policies", err.Error())
	}
}

// ModifyPlan implements resource.ResourceWithModifyPlan: another text has another version.
func (*policies) ModifyPlan(ctx context.Context, q resource.ModifyPlanRequest, r *resource.ModifyPlanResponse) {
	if q.State.Raw.IsNull() || q.Plan.Raw.IsNull() {
		return
	}
	var old, planned types.String
	r.Diagnostics.Append(q.State.GetAttribute(ctx, path.Root("yaml"), &old)...)
	r.Diagnostics.Append(q.Plan.GetAttribute(ctx, path.Root("yaml"), &planned)...)
	if !old.Equal(planned) {
		r.Diagnostics.Append(r.Plan.SetAttribute(ctx, path.Root("version"), types.Int64Unknown())...)
	}
}

// applyPolicies puts a text in force, if the expected version still is. nil: whatever is in force, if no policy ends by
// it.
func applyPolicies(ctx context.Context, c *cluster, m *policiesModel, expected *uint64) error {
	set, err := policy.Parse("yaml", []byte(m.YAML.ValueString()))
	if err != nil {
		return err
	}
	rules := string(policy.FormatRules(set))
	q := &stintv1.ApplyRequest{Policies: api.PolicyMessages(set), Rules: &rules, ExpectedVersion: expected,
		Rekey: m.Rekey.ValueBool(), Note: "by Terraform"}
	if expected == nil {
		q.DryRun = true
		would, err := call(ctx, c.policies.Apply, q)
		if err != nil {
			return err
		}
		for _, change := range would.Changes {
			if change.After == nil {
				return fmt.Errorf("the policy %s would end: import the policies first (terraform import)",
					change.Before.Name)
			}
		}
		q.DryRun, q.ExpectedVersion = false, &would.Version
	}
	applied, err := call(ctx, c.policies.Apply, q)
	m.Version = types.Int64Value(int64(applied.GetVersion()))
	return err
}

// readPolicies reads the policies in force. A text that means the same stays as it is written.
func readPolicies(ctx context.Context, c *cluster, m *policiesModel) (bool, error) {
	answer, err := call(ctx, c.policies.List, &stintv1.ListPoliciesRequest{})
	if err != nil {
		return false, err
	}
	inForce, err := api.PoliciesOf(answer.Policies)
	if err == nil {
		inForce, err = policy.ParseRules("rules", []byte(answer.Rules), inForce)
	}
	if err != nil {
		return false, notice{err, "The policies in force", false}
	}
	written, err := policy.Parse("yaml", []byte(m.YAML.ValueString()))
	if err != nil || !bytes.Equal(policy.Format(written), policy.Format(inForce)) {
		m.YAML = types.StringValue(string(policy.Format(inForce)))
	}
	m.Version = types.Int64Value(int64(answer.Version))
	return true, nil
}

// updatePolicies does not overwrite policies that somebody else has applied since the plan.
func updatePolicies(ctx context.Context, c *cluster, next, old *policiesModel) error {
	expected := uint64(old.Version.ValueInt64())
	return applyPolicies(ctx, c, next, &expected)
}

// keepPolicies deletes nothing. A cluster has one policy at least, and an operator who stops to use Terraform wants no
// request refused.
func keepPolicies(context.Context, *cluster, *policiesModel) error {
	return notice{errors.New("Terraform no longer knows of them. Another policies file replaces them: stint apply."),
		"The policies stay in force", true}
}

// ImportState implements resource.ResourceWithImportState. Any id names the policies of the cluster.
func (*policies) ImportState(ctx context.Context, _ resource.ImportStateRequest, r *resource.ImportStateResponse) {
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("yaml"), "")...)
}
