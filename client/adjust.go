package client

import (
	"cmp"
	"context"
	"crypto/rand"

	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// Adjust changes a key's usage, or blocks the key; the audit log records it. Adjust retries until ctx ends, with the
// request's IdempotencyId or one that it draws, so that it is applied once. The error is an *Error.
func (c *Client) Adjust(ctx context.Context, r *stintv1.AdjustRequest) (*stintv1.AdjustResponse, error) {
	r = proto.CloneOf(r)
	c.complete(&r.Namespace, &r.IdempotencyId)
	defer c.endLeases(r.Namespace, r.Policy, r.Key)()
	return call(ctx, c, nil, true, (*node).Adjust, r)
}

// PutOverride gives one key a tier or quotas of its own, or replaces the key's override. It retries as Adjust does. The
// error is an *Error.
func (c *Client) PutOverride(ctx context.Context, r *stintv1.PutOverrideRequest) error {
	r = proto.CloneOf(r)
	c.complete(&r.Namespace, &r.IdempotencyId)
	defer c.endLeases(r.Namespace, r.Policy, r.Key)()
	_, err := call(ctx, c, nil, true, (*node).PutOverride, r)
	return err
}

// DeleteOverride removes the override of one key, and reports whether there was one. It retries as Adjust does. The
// error is an *Error.
func (c *Client) DeleteOverride(ctx context.Context, r *stintv1.DeleteOverrideRequest) (bool, error) {
	r = proto.CloneOf(r)
	c.complete(&r.Namespace, &r.IdempotencyId)
	defer c.endLeases(r.Namespace, r.Policy, r.Key)()
	answer, err := call(ctx, c, nil, true, (*node).DeleteOverride, r)
	return answer.GetDeleted(), err
}

// Forget ends everything that the cluster keeps of one key, under all policies of its namespace. It retries until ctx
// ends: a repetition ends what was kept since. If it fails, a part may have been ended. The error is an *Error.
func (c *Client) Forget(ctx context.Context, r *stintv1.ForgetRequest) (*stintv1.ForgetResponse, error) {
	r = proto.CloneOf(r)
	r.Namespace = cmp.Or(r.Namespace, c.namespace)
	defer c.endLeases(r.Namespace, "", r.Key)()
	return call(ctx, c, nil, true, (*node).Forget, r)
}

// complete sets the fields of a request that are left to the client.
func (c *Client) complete(namespace, id *string) {
	*namespace, *id = cmp.Or(*namespace, c.namespace), cmp.Or(*id, rand.Text())
}
