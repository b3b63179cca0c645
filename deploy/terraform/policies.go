package main

import (
	"bytes"
	"context"
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
type policies struct{ configured }

type policiesModel struct {
	YAML    types.String `tfsdk:"yaml"`
	Rekey   types.Bool   `tfsdk:"rekey"`
	Version types.Int64  `tfsdk:"version"`
}

// Metadata implements resource.Resource.
func (*policies) Metadata(_ context.Context, _ resource.MetadataRequest, r *resource.MetadataResponse) {
	r.TypeName = "stint_policies"
}

// Schema implements resource.Resource.
func (*policies) Schema(_ context.Context, _ resource.SchemaRequest, r *resource.SchemaResponse) {
	r.Schema = schema.Schema{
		Description: "The policies file, with its gates, namespaces and Envoy rules. It is the whole set: what is not in it ends.",
		Attributes: map[string]schema.Attribute{
			"yaml": schema.StringAttribute{Required: true, Description: "The text of the file."},
			"rekey": schema.BoolAttribute{Optional: true,
				Description: "Namespaces may begin or stop to hash their keys: all of them are new keys then."},
			"version": schema.Int64Attribute{Computed: true, Description: "Version in force.",
				PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()}},
		},
	}
}

// ValidateConfig implements resource.ResourceWithValidateConfig: a wrong file fails the plan, with its line.
func (*policies) ValidateConfig(ctx context.Context, q resource.ValidateConfigRequest, r *resource.ValidateConfigResponse) {
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

// apply puts a text in force, if the expected version still is. nil: whatever is in force, if no policy ends by it.
func (p *policies) apply(ctx context.Context, m *policiesModel, expected *uint64) error {
	set, err := policy.Parse("yaml", []byte(m.YAML.ValueString()))
	if err != nil {
		return err
	}
	rules := string(policy.FormatRules(set))
	q := &stintv1.ApplyRequest{Policies: api.PolicyMessages(set), Rules: &rules, ExpectedVersion: expected, Rekey: m.Rekey.ValueBool(),
		Note: "by Terraform"}
	if expected == nil {
		q.DryRun = true
		would, err := call(ctx, p.cluster.policies.Apply, q)
		if err != nil {
			return err
		}
		for _, change := range would.Changes {
			if change.After == nil {
				return fmt.Errorf("the policy %s would end: import the policies first (terraform import)", change.Before.Name)
			}
		}
		q.DryRun, q.ExpectedVersion = false, &would.Version
	}
	applied, err := call(ctx, p.cluster.policies.Apply, q)
	m.Version = types.Int64Value(int64(applied.GetVersion()))
	return err
}

// Create implements resource.Resource.
func (p *policies) Create(ctx context.Context, q resource.CreateRequest, r *resource.CreateResponse) {
	var m policiesModel
	r.Diagnostics.Append(q.Plan.Get(ctx, &m)...)
	if r.Diagnostics.HasError() || failed(&r.Diagnostics, "The policies", p.apply(ctx, &m, nil)) {
		return
	}
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

// Read implements resource.Resource. A text that means what is in force stays as it is written.
func (p *policies) Read(ctx context.Context, q resource.ReadRequest, r *resource.ReadResponse) {
	var m policiesModel
	r.Diagnostics.Append(q.State.Get(ctx, &m)...)
	answer, err := call(ctx, p.cluster.policies.List, &stintv1.ListPoliciesRequest{})
	if failed(&r.Diagnostics, "The policies", err) {
		return
	}
	inForce, err := api.PoliciesOf(answer.Policies)
	if err == nil {
		inForce, err = policy.ParseRules("rules", []byte(answer.Rules), inForce)
	}
	if failed(&r.Diagnostics, "The policies in force", err) {
		return
	}
	written, err := policy.Parse("yaml", []byte(m.YAML.ValueString()))
	if err != nil || !bytes.Equal(policy.Format(written), policy.Format(inForce)) {
		m.YAML = types.StringValue(string(policy.Format(inForce)))
	}
	m.Version = types.Int64Value(int64(answer.Version))
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

// Update implements resource.Resource. Policies that somebody else has applied since the plan are not overwritten.
func (p *policies) Update(ctx context.Context, q resource.UpdateRequest, r *resource.UpdateResponse) {
	var m, old policiesModel
	r.Diagnostics.Append(q.Plan.Get(ctx, &m)...)
	r.Diagnostics.Append(q.State.Get(ctx, &old)...)
	expected := uint64(old.Version.ValueInt64())
	if r.Diagnostics.HasError() || failed(&r.Diagnostics, "The policies", p.apply(ctx, &m, &expected)) {
		return
	}
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

// Delete implements resource.Resource. A cluster has one policy at least, and whoever stops to use Terraform wants no
// request refused: the policies stay.
func (*policies) Delete(_ context.Context, _ resource.DeleteRequest, r *resource.DeleteResponse) {
	r.Diagnostics.AddWarning("The policies stay in force", "Terraform no longer knows of them. Another policies file replaces them: stint apply.")
}

// ImportState implements resource.ResourceWithImportState. Any id names the policies of the cluster.
func (*policies) ImportState(ctx context.Context, _ resource.ImportStateRequest, r *resource.ImportStateResponse) {
	r.Diagnostics.Append(r.State.SetAttribute(ctx, path.Root("yaml"), "")...)
}
