package api

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// BenchmarkCheck measures one call from its HTTP request to its response, without a network and with a decision that
// costs nothing: the cost of this package and connect.
func BenchmarkCheck(b *testing.B) {
	binary, err := proto.Marshal(aCheck())
	if err != nil {
		b.Fatal(err)
	}
	policies := testPolicies()
	handler := newAPI(Config{
		Decider:  quickDecider{},
		Revision: func() *policy.Revision { return &policy.Revision{Version: 1, Set: policies} },
		Sealer:   func() *shard.Sealer { return testSealer },
		Ready:    func() error { return nil },
		Metrics:  http.NotFoundHandler(),
	})
	for name, c := range map[string]struct{ contentType, body string }{
		"json":  {"application/json", perIP},
		"proto": {"application/proto", string(binary)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", stintv1connect.LimitServiceCheckProcedure, strings.NewReader(c.body))
				r.Host = "localhost"
				r.Header.Set("Content-Type", c.contentType)
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != 200 {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
