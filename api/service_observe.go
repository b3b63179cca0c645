package api

import (
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
)

// observeService answers stint.v1.ObserveService.
type observeService struct{ *Config }

func (s observeService) register(d *registry) {
	unary(d, auth.ObserveKeys, stintv1connect.ObserveServiceAuditProcedure, s.audit, readOnly)
	unary(d, auth.Usage, stintv1connect.ObserveServiceListUsageProcedure, s.listUsage, readOnly)
	unary(d, auth.ObserveKeys, stintv1connect.ObserveServiceListKeysProcedure, s.listKeys, readOnly)
	// Either of two operations permits Top, so it checks itself.
	unary(d, auth.NoOp, stintv1connect.ObserveServiceTopProcedure, s.top, readOnly)
}
