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

// CorrectUsage corrects the bill of one key by hand, and returns it. It retries as Adjust does. The record is nil if it
// was corrected before under the request's IdempotencyId, so long ago that the answer is forgotten. The error is an
// *Error.
func (c *Client) CorrectUsage(ctx context.Context, r *stintv1.CorrectUsageRequest) (*stintv1.UsageRecord, error) {
	r = proto.CloneOf(r)
	c.complete(&r.Namespace, &r.IdempotencyId)
	answer, err := call(ctx, c, nil, true, (*node).CorrectUsage, r)
	return answer.GetRecord(), err
}

// Forget ends everything that the cluster keeps of one key, under all policies of its namespace. It retries until ctx
// ends: a repetition ends what was kept since. If it fails, a part may have been ended. The error is an *Error.
func (c *Client) Forget(ctx context.Context, r *stintv1.ForgetRequest) (*stintv1.ForgetResponse, error) {
	r = proto.CloneOf(r)
	r.Namespace = cmp.Or(r.Namespace, c.namespace)
	defer c.endLeases(r.Namespace, "", r.Key)()
	return call(ctx, c, nil, true, (*node).Forget, r)
}

// ListUsage returns a page of the bills of a namespace. It retries like Get. The error is an *Error.
func (c *Client) ListUsage(ctx context.Context, r *stintv1.ListUsageRequest) (*stintv1.ListUsageResponse, error) {
	r = proto.CloneOf(r)
	r.Namespace = cmp.Or(r.Namespace, c.namespace)
	return call(ctx, c, nil, true, (*node).ListUsage, r)
}

// complete sets the fields of a request that are left to the client.
func (c *Client) complete(namespace, id *string) {
	*namespace, *id = cmp.Or(*namespace, c.namespace), cmp.Or(*id, rand.Text())
}
