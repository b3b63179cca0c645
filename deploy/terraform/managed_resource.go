package main

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

// managedResource is a resource whose plan and state are an M. Its functions call the cluster, and make the model what
// is in force then.
type managedResource[M any] struct {
	name   string // in the type's: stint_name
	what   string // how an error begins
	schema schema.Schema

	create func(context.Context, *cluster, *M) error
	read   func(context.Context, *cluster, *M) (found bool, err error) // not found: it leaves the state
	update func(ctx context.Context, c *cluster, next, old *M) error
	delete func(context.Context, *cluster, *M) error

	cluster *cluster // nil while only schemas are checked
}

// Metadata implements resource.Resource.
func (m *managedResource[M]) Metadata(_ context.Context, _ resource.MetadataRequest, r *resource.MetadataResponse) {
	r.TypeName = "stint_" + m.name
}

// Schema implements resource.Resource.
func (m *managedResource[M]) Schema(_ context.Context, _ resource.SchemaRequest, r *resource.SchemaResponse) {
	r.Schema = m.schema
}

// Configure implements resource.ResourceWithConfigure.
func (m *managedResource[M]) Configure(_ context.Context, q resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	m.cluster, _ = q.ProviderData.(*cluster)
}

// Create implements resource.Resource.
func (m *managedResource[M]) Create(ctx context.Context, q resource.CreateRequest, r *resource.CreateResponse) {
	var next M
	r.Diagnostics.Append(q.Plan.Get(ctx, &next)...)
	if !r.Diagnostics.HasError() && !failed(&r.Diagnostics, m.what, m.create(ctx, m.cluster, &next)) {
		r.Diagnostics.Append(r.State.Set(ctx, next)...)
	}
}

// Read implements resource.Resource.
func (m *managedResource[M]) Read(ctx context.Context, q resource.ReadRequest, r *resource.ReadResponse) {
	var now M
	r.Diagnostics.Append(q.State.Get(ctx, &now)...)
	found, err := m.read(ctx, m.cluster, &now)
	switch {
	case failed(&r.Diagnostics, m.what, err):
	case !found:
		r.State.RemoveResource(ctx)
	default:
		r.Diagnostics.Append(r.State.Set(ctx, now)...)
	}
}

// Update implements resource.Resource.
func (m *managedResource[M]) Update(ctx context.Context, q resource.UpdateRequest, r *resource.UpdateResponse) {
	var next, old M
	r.Diagnostics.Append(q.Plan.Get(ctx, &next)...)
	r.Diagnostics.Append(q.State.Get(ctx, &old)...)
	if !r.Diagnostics.HasError() && !failed(&r.Diagnostics, m.what, m.update(ctx, m.cluster, &next, &old)) {
		r.Diagnostics.Append(r.State.Set(ctx, next)...)
	}
}

// Delete implements resource.Resource.
func (m *managedResource[M]) Delete(ctx context.Context, q resource.DeleteRequest, r *resource.DeleteResponse) {
	var old M
	r.Diagnostics.Append(q.State.Get(ctx, &old)...)
	failed(&r.Diagnostics, m.what, m.delete(ctx, m.cluster, &old))
}

// ImportState implements resource.ResourceWithImportState. The id is the name; a secret stays unknown.
func (*managedResource[M]) ImportState(
	ctx context.Context, q resource.ImportStateRequest, r *resource.ImportStateResponse,
) {
	resource.ImportStatePassthroughID(ctx, path.Root("name"), q, r)
}
