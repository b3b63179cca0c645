package policy

import "slices"

// Namespace is the settings of one namespace.
type Namespace struct {
	Name string
	Keys KeyForm `policy:"keys" about:"The form in which keys are counted, stored and sent between nodes."`
}

// KeyForm is the form in which the keys of a namespace are counted, stored and sent between nodes.
type KeyForm uint8

// The forms of keys.
const (
	KeysPlain  KeyForm = 0 // as callers send them
	KeysHashed KeyForm = 1 // as HMAC by a secret of the cluster, computed at the node that receives the request (R22)
)

// HashesKeys reports whether the keys of a namespace are hashed.
func (s *Set) HashesKeys(namespace string) bool { return s.hashed[namespace] }

// HashesAnyKeys reports whether the keys of any namespace are hashed.
func (s *Set) HashesAnyKeys() bool { return len(s.hashed) > 0 }

// Rekeyed lists, by name, the namespaces that have another form of keys in the other set: all their keys are new under
// it, with nothing used. It may be called concurrently.
func (s *Set) Rekeyed(by *Set) (namespaces []string) {
	for _, one := range [][2]*Set{{s, by}, {by, s}} {
		for name := range one[0].hashed {
			if !one[1].hashed[name] {
				namespaces = append(namespaces, name)
			}
		}
	}
	slices.Sort(namespaces)
	return namespaces
}
