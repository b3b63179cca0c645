package main

import stintv1 "github.com/stint-io/stint/api/gen/stint/v1"

// entry is the key of a command.
type entry struct {
	Policy    string `arg:"" help:"Name of the policy."`
	Key       string `arg:"" help:"What is counted, as in user:42."`
	Namespace string `help:"Default: the server's."`
}

// get asks for the state of the key.
func (e entry) get() *stintv1.GetRequest {
	return &stintv1.GetRequest{Namespace: e.Namespace, Entries: []*stintv1.Entry{{Policy: e.Policy, Key: e.Key}}}
}

func (e entry) String() string { return e.Policy + " on " + e.Key }

// entries has the keys that a command decides together: one entry and further pairs.
type entries struct {
	entry
	More []string `arg:"" optional:"" name:"policy-key" help:"Further policies and keys, decided together with the first: all or none."`
	Cost []uint64 `help:"Units to spend: one number for all keys, or one for each, separated by commas." default:"1"`
	Tier []string `help:"Tier of each key, in their order, separated by commas. Default: the key's own, else the policy's."`
}

// messages returns the entries in the form of a request.
func (e entries) messages() ([]*stintv1.Entry, error) {
	names := append([]string{e.Policy, e.Key}, e.More...)
	if len(names)%2 != 0 {
		return nil, usagef("%s: needs a key: policies and keys come in pairs", names[len(names)-1])
	}
	count := len(names) / 2
	if len(e.Cost) != 1 && len(e.Cost) != count {
		return nil, usagef("--cost: are %d numbers for %d keys: one for all, or one for each", len(e.Cost), count)
	}
	if len(e.Tier) > count {
		return nil, usagef("--tier: are %d tiers for %d keys", len(e.Tier), count)
	}
	messages := make([]*stintv1.Entry, count)
	for i := range messages {
		messages[i] = &stintv1.Entry{Policy: names[2*i], Key: names[2*i+1], Cost: &e.Cost[min(i, len(e.Cost)-1)]}
		if i < len(e.Tier) {
			messages[i].Tier = e.Tier[i]
		}
	}
	return messages, nil
}

func (e entries) String() string {
	text := e.entry.String()
	for i := 0; i+1 < len(e.More); i += 2 {
		text += ", " + e.More[i] + " on " + e.More[i+1]
	}
	return text
}
