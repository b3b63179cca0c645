package node

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-io/stint/internal/observe/metrics"
)

// Prometheus sees no increase in the first value of a series, and so the alert about the first refusal would not fire.
func TestWhatAlertsCountBeginsAtZero(t *testing.T) {
	o := &replicaObserver{metrics: metrics.New()}
	o.ofActor(3)
	w := httptest.NewRecorder()
	o.metrics.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, series := range []string{"stint_time_frozen_total", "stint_memory_full_total", "stint_keys_refused_total"} {
		if !strings.Contains(w.Body.String(), series+`{shard="3"} 0`+"\n") {
			t.Errorf("a shard that was never in trouble has no %s", series)
		}
	}
}
