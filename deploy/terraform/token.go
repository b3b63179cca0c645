package main

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/boolplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/listplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type tokenModel struct {
	Name      types.String `tfsdk:"name"`
	Grants    []grantModel `tfsdk:"grants"`
	ExpiresAt types.String `tfsdk:"expires_at"`
	Role      types.Bool   `tfsdk:"role"`
	ID        types.String `tfsdk:"id"` // null after an import: the first token of the name is taken then
	Token     types.String `tfsdk:"token"`
}

type grantModel struct {
	Namespaces types.Set `tfsdk:"namespaces"`
	Policies   types.Set `tfsdk:"policies"`
	Keys       types.Set `tfsdk:"keys"`
	Tiers      types.Set `tfsdk:"tiers"`
	Ops        types.Set `tfsdk:"ops"`
}

// newToken returns the resource stint_token: a token or role. Nothing of it can be changed: another one takes its
// place.
func newToken() resource.Resource {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	kept := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	list := func(what string) schema.SetAttribute {
		return schema.SetAttribute{Optional: true, ElementType: types.StringType, Description: what}
	}
	return &managedResource[tokenModel]{name: "token", what: "The token", create: createToken, read: readToken,
		update: func(context.Context, *cluster, *tokenModel, *tokenModel) error {
			return errors.New("a token cannot be changed")
		},
		delete: revokeToken, schema: schema.Schema{
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
				"role": schema.BoolAttribute{Optional: true,
					PlanModifiers: []planmodifier.Bool{boolplanmodifier.RequiresReplace()},
					Description:   "A role has no secret: the certificate proves it."},
				"id": schema.StringAttribute{Computed: true, PlanModifiers: kept,
					Description: "The public part of the token; empty for a role."},
				"token": schema.StringAttribute{Computed: true, Sensitive: true, PlanModifiers: kept,
					Description: "The secret; empty for a role, and after an import."},
			},
		}}
}

// createToken makes a token or role.
func createToken(ctx context.Context, c *cluster, m *tokenModel) error {
	ends, err := instantOf(m.ExpiresAt)
	if err != nil {
		return notice{err, "expires_at", false}
	}
	request := &stintv1.CreateTokenRequest{Name: m.Name.ValueString(), ExpiresAt: ends, Role: m.Role.ValueBool()}
	for _, g := range m.Grants {
		request.Grants = append(request.Grants,
			&stintv1.Grant{Namespaces: texts(g.Namespaces), Policies: texts(g.Policies),
				Keys: texts(g.Keys), Tiers: texts(g.Tiers), Ops: texts(g.Ops)})
	}
	answer, err := call(ctx, c.tokens.Create, request)
	if err != nil {
		return err
	}
	m.Token, m.ID = types.StringValue(answer.Token), types.StringValue(idOf(answer.Token))
	return nil
}

// idOf returns the public part of a token, between its underscores.
func idOf(secret string) string {
	parts := strings.Split(secret, "_")
	if len(parts) != 3 {
		return ""
	}
	return parts[1]
}

// readToken reads a token or role. Another one of the same name has another id: somebody has replaced it.
func readToken(ctx context.Context, c *cluster, m *tokenModel) (bool, error) {
	answer, err := call(ctx, c.tokens.List, &stintv1.ListTokensRequest{})
	at := slices.IndexFunc(answer.GetTokens(), func(other *stintv1.Token) bool {
		return other.Name == m.Name.ValueString() && (m.ID.IsNull() || m.ID.ValueString() == other.Id)
	})
	if at < 0 {
		return false, err
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
			m.Grants = append(m.Grants, grantModel{textsOf(g.Namespaces), textsOf(g.Policies), textsOf(g.Keys),
				textsOf(g.Tiers), textsOf(g.Ops)})
		}
	}
	return true, nil
}

// revokeToken ends a token or role. The tokens that it has made stay.
func revokeToken(ctx context.Context, c *cluster, m *tokenModel) error {
	_, err := call(ctx, c.tokens.Revoke, &stintv1.RevokeTokenRequest{Name: m.Name.ValueString()})
	return err
}
