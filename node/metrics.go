package node

import (
	"net/http"

	"github.com/stint-io/stint/internal/observe/metrics"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// scrape updates the metrics that only a scrape needs, then answers it.
func scrape(m *metrics.Metrics, replicas *replicaSet, revision func() *policy.Revision) http.Handler {
	handler := m.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, r := range replicas.all() {
			r.group.View(func(s *shard.State) {
				m.Keys(uint32(r.Shard), s.Records(), s.Bytes())
				m.LegsOpen(uint32(r.Shard), s.OpenLegs())
				if revision := revision(); revision != nil {
					for _, use := range s.CapUses(revision.Set, shard.Room{}) {
						m.PolicyKeys(uint32(r.Shard), use.Policy, use.Keys)
					}
				}
			})
		}
		handler.ServeHTTP(w, r)
	})
}
