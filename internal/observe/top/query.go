package top

import "slices"

// Query asks for the busiest keys of a namespace. Nodes send it to each other as JSON.
type Query struct {
	Namespace string
	Policies  []string `json:",omitempty"` // empty for all
	Order     Measure
	Span      Span
	Count     int  // keys of each policy
	Traffic   bool `json:",omitempty"` // whether to include the Traffic
}

// Bounds of a Query, so that it fits into a message between nodes.
const (
	PoliciesMax = 16
	CountMax    = summaryKeys
)

// Known reports whether this release can answer the query: another node may run a newer one.
func (q *Query) Known() bool {
	return q.Order < measures && q.Span <= Hour && q.Count > 0 && q.Count <= CountMax
}

// wants reports whether the query asks about a policy.
func (q *Query) wants(namespace, policy string) bool {
	return namespace == q.Namespace && (len(q.Policies) == 0 || slices.Contains(q.Policies, policy))
}
