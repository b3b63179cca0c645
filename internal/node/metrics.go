package node

import (
	"net/http"

	"github.com/stint-io/stint/internal/metrics"
	"github.com/stint-io/stint/shard"
)

// scrape updates the metrics that only a scrape needs, then answers it.
func scrape(m *metrics.Metrics, replicas *replicaSet) http.Handler {
	handler := m.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, r := range replicas.all() {
			r.group.View(func(s *shard.State) {
				m.Keys(uint32(r.Shard), s.Records(), s.Bytes())
				m.LegsOpen(uint32(r.Shard), s.OpenLegs())
			})
		}
		handler.ServeHTTP(w, r)
	})
}
