package policy

import "slices"

// Set is all policies of a configuration, for every namespace. It is immutable: any number of goroutines may read it,
// and it is replaced, never changed.
type Set struct {
	byName map[string]*Policy
	names  []string // sorted

	rules          Rules
	hashed         map[string]bool // namespaces with hashed keys; may be nil
	repeatsDenials bool
	grantsLeases   bool
	hasMeters      bool
	version        uint64 // of the cluster's policies; 0 if not known
}

// emptySet stands for a nil set.
var emptySet = NewSet(nil)

// At returns a copy of the set, marked with its version of the cluster's policies; 0 means no version.
func (s *Set) At(version uint64) *Set {
	of := *s
	of.version = version
	return &of
}

// Version returns the version of the cluster's policies, or 0 if it is not known.
func (s *Set) Version() uint64 { return s.version }

// NewSet makes a Set of validated policies, and prepares each for Resolve. It panics if two have the same name: Parse
// has already refused that. It writes to the policies, so none of them may be in use elsewhere. They must not be
// changed afterwards.
func NewSet(policies []*Policy) *Set {
	s := &Set{byName: make(map[string]*Policy, len(policies))}
	for _, p := range policies {
		if _, twice := s.byName[p.Name]; twice {
			panic("policy: two policies named " + p.Name)
		}
		p.resolveTiers()
		if p.OnExpire == OnExpireDefault {
			p.OnExpire = OnExpireCancel
		}
		s.byName[p.Name] = p
		s.names = append(s.names, p.Name)
		s.repeatsDenials = s.repeatsDenials || p.DenyCache > 0
		s.grantsLeases = s.grantsLeases || p.Lease != nil
		s.hasMeters = s.hasMeters || p.Meter != nil
	}
	slices.Sort(s.names)
	return s
}

// Lookup returns the policy with a name.
func (s *Set) Lookup(name string) (*Policy, bool) {
	p, ok := s.byName[name]
	return p, ok
}

// TierIsUnlimited reports whether a tier of a policy lifts all its limits. It is false if there is no such policy or
// tier.
func (s *Set) TierIsUnlimited(name, tier string) bool {
	p, ok := s.Lookup(name)
	return ok && p.Tiers[tier].Unlimited
}

// Names returns the names of the policies in alphabetical order. The caller must not change the slice.
func (s *Set) Names() []string { return s.names }

// RepeatsDenials reports whether any of the policies has a DenyCache.
func (s *Set) RepeatsDenials() bool { return s.repeatsDenials }

// GrantsLeases reports whether any of the policies has a Lease.
func (s *Set) GrantsLeases() bool { return s.grantsLeases }

// HasMeters reports whether any of the policies has a meter.
func (s *Set) HasMeters() bool { return s.hasMeters }
