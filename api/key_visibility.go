package api

import "github.com/stint-io/stint/internal/edge/auth"

// keyVisibility is what a caller may see of the keys of a namespace: the keys that its grants of observe-keys cover,
// and if it may observe the cluster, everything else with hashes for keys.
type keyVisibility struct {
	caller    *auth.Caller
	namespace string
	observes  bool // the caller may observe the cluster
	keys      bool // some grant has observe-keys; shows asks whether it covers a key
}

// visibilityOf returns what a caller may see at present. A caller that may see nothing in the namespace is refused.
func (c *Config) visibilityOf(caller *auth.Caller, namespace string) (v keyVisibility, refusal *auth.Refusal) {
	ofKeys := c.Guard.Admit(caller, auth.ObserveKeys)
	v = keyVisibility{caller, namespace, c.Guard.Admit(caller, auth.Observe) == nil, ofKeys == nil}
	switch only := caller.Namespace(); {
	case !v.observes && !v.keys:
		return v, ofKeys
	case !v.observes && only != "" && only != namespace:
		return v, auth.NotGrantedError(auth.ObserveKeys)
	}
	return v, nil
}

// shows reports whether the caller may see a key of a policy; key "" stands for all of them.
func (v *keyVisibility) shows(policy, key string) bool {
	return v.keys && v.caller.May(auth.ObserveKeys, auth.Target{Namespace: v.namespace, Policy: policy, Key: key})
}

// visibleKey returns a key of a policy as the caller sees it: as it is, as its hash, or "" if the caller sees nothing
// of it.
func (c *Config) visibleKey(v *keyVisibility, policy, key string) (seen string, hashed bool, err error) {
	switch {
	case v.shows(policy, key):
		return key, false, nil
	case !v.observes:
		return "", false, nil
	}
	if c.Top != nil {
		seen, hashed = c.Top.HideKey(v.namespace, key)
	}
	if !hashed {
		return "", false, errNoCluster
	}
	return seen, true, nil
}
