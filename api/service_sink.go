package api

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/shard"
)

// SinkStatus is a sink and its state of delivery.
type SinkStatus struct {
	notify.Sink
	Failing string // why the last delivery of some node failed; "" if it did not

	Skipped shard.SkippedBills // bills that it was not sent and will never be, since it was made or enabled
}

// SinkAdmin creates and deletes event sinks, for the API. It may be called concurrently. Errors are *shard.Error.
type SinkAdmin interface {
	// Create makes a sink. For a webhook it draws and returns a secret; for other kinds, s holds the API key. who is
	// the actor.
	Create(ctx context.Context, s notify.Sink, who string) (secret string, err error)
	// Statuses returns all sinks by name.
	Statuses(ctx context.Context) ([]SinkStatus, error)
	// Rotate gives a sink a new secret: for a webhook it draws and returns one, for other kinds apiKey is the new key.
	// The former secret is used beside it for overlap.
	Rotate(ctx context.Context, name, apiKey string, overlap time.Duration, who string) (secret string, err error)
	// SetEnabled enables or disables a sink.
	SetEnabled(ctx context.Context, name string, enabled bool, who string) error
	// Delete removes a sink.
	Delete(ctx context.Context, name, who string) error
}

// stripeURL takes meter events.
const stripeURL = "https://api.stripe.com/v1/billing/meter_events"

// sinkService answers stint.v1.SinkService.
type sinkService struct{ *Config }

func (s sinkService) register(d *registry) {
	change(d, auth.Sinks, stintv1connect.SinkServiceCreateProcedure, s.create)
	unary(d, auth.Sinks, stintv1connect.SinkServiceListProcedure, s.list, readOnly)
	change(d, auth.Sinks, stintv1connect.SinkServiceRotateProcedure, s.rotate)
	change(d, auth.Sinks, stintv1connect.SinkServiceEnableProcedure, s.enable)
	change(d, auth.Sinks, stintv1connect.SinkServiceDisableProcedure, s.disable)
	change(d, auth.Sinks, stintv1connect.SinkServiceDeleteProcedure, s.delete)
	unary(d, auth.Sinks, stintv1connect.SinkServiceListEventsProcedure, s.listEvents, readOnly)
	change(d, auth.Sinks, stintv1connect.SinkServiceReplayEventsProcedure, s.replayEvents)
}

func (s sinkService) create(ctx context.Context, who string, m *stintv1.CreateSinkRequest) (
	*stintv1.CreateSinkResponse, error) {
	sink := notify.Sink{Name: m.Name, Kind: m.Kind, URL: m.Url,
		Events: slices.Compact(slices.Sorted(slices.Values(m.Events))), Prefix: m.Prefix}
	if sink.Kind == notify.Stripe && sink.URL == "" {
		sink.URL = stripeURL
	}
	switch {
	case sink.Kind == notify.Webhook && m.ApiKey != "":
		return nil, shard.Invalidf("api_key", "is for stripe and cloudevents only: a webhook's secret is drawn here")
	case sink.Kind == notify.Stripe || m.ApiKey != "":
		sink.Secrets = []notify.Secret{{Key: []byte(m.ApiKey)}}
	}
	if err := invalid(sink.Problem()); err != nil {
		return nil, err
	}
	secret, err := s.Sinks.Create(ctx, sink, who)
	return &stintv1.CreateSinkResponse{Secret: secret}, err
}

func (s sinkService) list(ctx context.Context, _ *stintv1.ListSinksRequest) (*stintv1.ListSinksResponse, error) {
	all, err := s.Sinks.Statuses(ctx)
	if err != nil {
		return nil, err
	}
	response := &stintv1.ListSinksResponse{}
	for i := range all {
		response.Sinks = append(response.Sinks, sinkMessage(&all[i]))
	}
	return response, nil
}

// sinkMessage translates a sink without its secrets.
func sinkMessage(s *SinkStatus) *stintv1.Sink {
	m := &stintv1.Sink{
		Name:         s.Name,
		Kind:         s.Kind,
		Url:          s.URL,
		Events:       s.Events,
		Prefix:       s.Prefix,
		Creator:      s.Creator,
		Failing:      s.Failing,
		SkippedBills: s.Skipped.Bills,
		CreatedAt:    timestamppb.New(time.UnixMicro(s.Created)),
	}
	for _, bill := range s.Skipped.Newest {
		m.SkippedNewest = append(m.SkippedNewest, &stintv1.SkippedBill{Id: bill.ID, Why: bill.Why})
	}
	if n := len(s.Secrets); n > 0 && s.Secrets[n-1].Ends != 0 {
		m.FormerUntil = timestamppb.New(time.UnixMicro(s.Secrets[n-1].Ends))
	}
	if s.Disabled != nil {
		m.DisabledAt, m.DisabledWhy = timestamppb.New(time.UnixMicro(s.Disabled.At)), s.Disabled.Why
	}
	return m
}

func (s sinkService) rotate(ctx context.Context, who string, m *stintv1.RotateSinkRequest) (
	*stintv1.RotateSinkResponse, error) {
	overlap, err := overlapOf(m.Overlap)
	if err != nil {
		return nil, err
	}
	secret, err := s.Sinks.Rotate(ctx, m.Name, m.ApiKey, overlap, who)
	return &stintv1.RotateSinkResponse{Secret: secret}, err
}

func (s sinkService) enable(ctx context.Context, who string, m *stintv1.EnableSinkRequest) (
	*stintv1.EnableSinkResponse, error) {
	return &stintv1.EnableSinkResponse{}, s.Sinks.SetEnabled(ctx, m.Name, true, who)
}

func (s sinkService) disable(ctx context.Context, who string, m *stintv1.DisableSinkRequest) (
	*stintv1.DisableSinkResponse, error) {
	return &stintv1.DisableSinkResponse{}, s.Sinks.SetEnabled(ctx, m.Name, false, who)
}

func (s sinkService) delete(ctx context.Context, who string, m *stintv1.DeleteSinkRequest) (
	*stintv1.DeleteSinkResponse, error) {
	return &stintv1.DeleteSinkResponse{}, s.Sinks.Delete(ctx, m.Name, who)
}
