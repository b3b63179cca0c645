package decisions

import (
	"slices"
	"strings"
)

// Filter selects the events of one namespace that meet all conditions. An empty field is no condition, except for
// Namespace, which must be equal.
type Filter struct {
	Namespace string   `json:"namespace"`
	Policies  []string `json:"policies,omitempty"`
	Kinds     []Kind   `json:"kinds,omitempty"`
	Key       string   `json:"key,omitempty"` // as it was counted: a hash in a namespace that hashes its keys
	KeyPrefix string   `json:"key_prefix,omitempty"`
}

// PoliciesMax bounds the policies in a Filter, so that it fits into a message between nodes.
const PoliciesMax = 16

// Wants reports whether the filter selects an event: all conditions must hold for one of its keys.
func (f *Filter) Wants(e *Record) bool {
	if e.Namespace != f.Namespace || len(f.Kinds) > 0 && !slices.Contains(f.Kinds, e.Kind) {
		return false
	}
	for one := range e.Entries() {
		if f.WantsEntry(one) {
			return true
		}
	}
	return false
}

// WantsEntry reports whether the filter selects one of an event's keys.
func (f *Filter) WantsEntry(e *Entry) bool {
	return (len(f.Policies) == 0 || slices.Contains(f.Policies, e.Policy)) && (f.Key == "" || f.Key == e.Key) &&
		strings.HasPrefix(e.Key, f.KeyPrefix)
}

// bits returns the bits of the kinds that the filter selects. A kind that only another release knows has none.
func (f *Filter) bits() (all uint8) {
	for _, k := range f.Kinds {
		all |= k.bit()
	}
	if len(f.Kinds) == 0 {
		return 0xff
	}
	return all
}
