package main

import (
	"context"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// token is the resource stint_token: a token or role. Nothing of it can be changed: another one takes its place.
type token struct{ configured }

type tokenModel struct {
	Name      types.String `tfsdk:"name"`
	Grants    []grantModel `tfsdk:"grants"`
	ExpiresAt types.String `tfsdk:"expires_at"`
	Role      types.Bool   `tfsdk:"role"`
	ID        types.String `tfsdk:"id"`
	Token     types.String `tfsdk:"token"`
}

type grantModel struct {
	Namespaces types.Set `tfsdk:"namespaces"`
	Policies   types.Set `tfsdk:"policies"`
	Keys       types.Set `tfsdk:"keys"`
	Tiers      types.Set `tfsdk:"tiers"`
	Ops        types.Set `tfsdk:"ops"`
}

// Metadata implements resource.Resource.
func (*token) Metadata(_ context.Context, _ resource.MetadataRequest, r *resource.MetadataResponse) {
	r.TypeName = "stint_token"
}

// Schema implements resource.Resource.
func (*token) Schema(_ context.Context, _ resource.SchemaRequest, r *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	kept := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	list := func(what string) schema.SetAttribute {
		return schema.SetAttribute{Optional: true, ElementType: types.StringType, Description: what}
	}
	r.Schema = schema.Schema{
		Description: "A token, or a role of a client certificate. Its secret is in the state.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{Required: true, PlanModifiers: replace},
			"grants": schema.ListNestedAttribute{Required: true,
				PlanModifiers: []planmodifier.List{listplanmodifier.RequiresReplace()},
				Description:   "What it allows. An absent list means all, except for tiers, where it means none.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"namespaces": list("Namespaces that requests may name."),
					"policies":   list("Policies that requests may name."),
					"keys":       list("Keys, or with a star at the end the beginnings of keys."),
					"tiers":      list("Tiers that a request may name."),
					"ops":        list("Operations, as in check."),
				}}},
			"expires_at": schema.StringAttribute{Optional: true, PlanModifiers: replace,
				Description: "When it ends, as in 2027-01-01T00:00:00Z; else never."},
			"role": schema.BoolAttribute{Optional: true, PlanModifiers: []planmodifier.Bool{boolplanmodifier.RequiresReplace()},
				Description: "A role has no secret: the certificate proves it."},
			"id": schema.StringAttribute{Computed: true, PlanModifiers: kept,
				Description: "The public part of the token; empty for a role."},
			"token": schema.StringAttribute{Computed: true, Sensitive: true, PlanModifiers: kept,
				Description: "The secret; empty for a role, and after an import."},
		},
	}
}

// Create implements resource.Resource.
func (t *token) Create(ctx context.Context, q resource.CreateRequest, r *resource.CreateResponse) {
	var m tokenModel
	r.Diagnostics.Append(q.Plan.Get(ctx, &m)...)
	ends, err := instantOf(m.ExpiresAt)
	if r.Diagnostics.HasError() || failed(&r.Diagnostics, "expires_at", err) {
		return
	}
	request := &stintv1.CreateTokenRequest{Name: m.Name.ValueString(), ExpiresAt: ends, Role: m.Role.ValueBool()}
	for _, g := range m.Grants {
		request.Grants = append(request.Grants, &stintv1.Grant{Namespaces: texts(g.Namespaces), Policies: texts(g.Policies),
			Keys: texts(g.Keys), Tiers: texts(g.Tiers), Ops: texts(g.Ops)})
	}
	answer, err := call(ctx, t.tokens.Create, request)
	if failed(&r.Diagnostics, "The token", err) {
		return
	}
	m.Token, m.ID = types.StringValue(answer.Token), types.StringValue(idOf(answer.Token))
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

// idOf returns the public part of a token, between its underscores.
func idOf(secret string) string {
	parts := strings.Split(secret, "_")
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}

// Read implements resource.Resource. Another token of the same name has another id: somebody has replaced it.
func (t *token) Read(ctx context.Context, q resource.ReadRequest, r *resource.ReadResponse) {
	var m tokenModel
	r.Diagnostics.Append(q.State.Get(ctx, &m)...)
	answer, err := call(ctx, t.tokens.List, &stintv1.ListTokensRequest{})
	if failed(&r.Diagnostics, "The token", err) {
		return
	}
	at := slices.IndexFunc(answer.Tokens, func(other *stintv1.Token) bool {
		return other.Name == m.Name.ValueString() && (m.ID.IsNull() || m.ID.ValueString() == other.Id)
	})
	if at < 0 {
		r.State.RemoveResource(ctx)
		return
	}
	found := answer.Tokens[at]
	m.ID, m.ExpiresAt = types.StringValue(found.Id), sameInstant(m.ExpiresAt, found.ExpiresAt)
	if m.Token.IsNull() {
		m.Token = types.StringValue("")
	}
	if found.Id == "" || m.Role.ValueBool() {
		m.Role = types.BoolValue(found.Id == "")
	}
	if m.Grants == nil { // imported
		for _, g := range found.Grants {
			m.Grants = append(m.Grants, grantModel{textsOf(g.Namespaces), textsOf(g.Policies), textsOf(g.Keys), textsOf(g.Tiers), textsOf(g.Ops)})
		}
	}
	r.Diagnostics.Append(r.State.Set(ctx, m)...)
}

// Update implements resource.Resource.
func (*token) Update(_ context.Context, _ resource.UpdateRequest, r *resource.UpdateResponse) {
	r.Diagnostics.AddError("The token", "a token cannot be changed")
}

// Delete implements resource.Resource. The tokens that it has made stay.
func (t *token) Delete(ctx context.Context, q resource.DeleteRequest, r *resource.DeleteResponse) {
	var m tokenModel
	r.Diagnostics.Append(q.State.Get(ctx, &m)...)
	_, err := call(ctx, t.tokens.Revoke, &stintv1.RevokeTokenRequest{Name: m.Name.ValueString()})
	failed(&r.Diagnostics, "The token", err)
}

// ImportState implements resource.ResourceWithImportState. The id is the name; the secret stays unknown.
func (*token) ImportState(ctx context.Context, q resource.ImportStateRequest, r *resource.ImportStateResponse) {
	resource.ImportStatePassthroughID(ctx, path.Root("name"), q, r)
}
