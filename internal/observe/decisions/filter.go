package decisions

import (
	"slices"
	"strings"
)

// Filter selects events; an empty field selects all.
type Filter struct {
	Namespace string   `json:"namespace"`
	Policies  []string `json:"policies,omitempty"`
	Kinds     []Kind   `json:"kinds,omitempty"`
	Key       string   `json:"key,omitempty"`
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

// bits returns the kinds that the filter selects.
func (f *Filter) bits() (all uint8) {
	for _, k := range f.Kinds {
		all |= k.bit()
	}
	if len(f.Kinds) == 0 {
		return 0xff
	}
	return all
}
