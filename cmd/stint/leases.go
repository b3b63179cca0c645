package main

import (
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
)

type leasesCommand struct{ keyListing }

// Run lists the leases.
func (c *leasesCommand) Run(s streams) error {
	return c.list(s, "leases", &stintv1.ListKeysRequest{Leases: true}, "POLICY\tKEY\tHOLDER\tUNITS\tUNTIL",
		func(k *stintv1.KeptKey) (rows [][]any) {
			for _, l := range k.Leases {
				rows = append(rows, []any{k.Policy, k.Key, holderText(l.Holder), l.Units, instant(l.EndsAt)})
			}
			return rows
		})
}

// holderText is the node of a holder, or the name of one outside the cluster.
func holderText(holder string) string {
	node, _, _ := strings.Cut(holder, "/")
	return node
}
