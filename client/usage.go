package client

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

// CorrectUsage corrects the bill of one key by hand, and returns it. It retries as Adjust does. The record is nil if it
// was corrected before under the request's IdempotencyId, so long ago that the answer is forgotten. The error is an
// *Error.
func (c *Client) CorrectUsage(ctx context.Context, r *stintv1.CorrectUsageRequest) (*stintv1.UsageRecord, error) {
	r = proto.CloneOf(r)
	c.complete(&r.Namespace, &r.IdempotencyId)
	answer, err := call(ctx, c, nil, true, (*node).CorrectUsage, r)
	return answer.GetRecord(), err
}

// ListUsage returns a page of the bills of a namespace. It retries like Get. The error is an *Error.
func (c *Client) ListUsage(ctx context.Context, r *stintv1.ListUsageRequest) (*stintv1.ListUsageResponse, error) {
	r = proto.CloneOf(r)
	r.Namespace = cmp.Or(r.Namespace, c.namespace)
	return call(ctx, c, nil, true, (*node).ListUsage, r)
}
