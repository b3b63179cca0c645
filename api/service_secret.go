package api

import (
	"context"
	"time"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/shard"
)

// SecretAdmin changes the secrets that ids are sealed with, for the API. It may be called concurrently. Errors are *shard.Error:
// what the present state forbids is shard.Conflict.
type SecretAdmin interface {
	// Secrets describes the secrets.
	Secrets(ctx context.Context) (SecretStatus, error)
	// Rotate adds a secret, which seals as soon as all nodes know it, and returns its number. It does not wait. who is the actor.
	Rotate(ctx context.Context, who string) (number uint32, err error)
	// DropOld drops every secret but the one that seals, and returns their numbers.
	DropOld(ctx context.Context, who string) (dropped []uint32, err error)
	// History returns the remembered changes, in no order.
	History(ctx context.Context) ([]shard.AuditRecord, error)
}

// SecretStatus describes the secrets that ids are sealed with.
type SecretStatus struct {
	Secrets     []SealingSecret // by number
	Unconfirmed []string        // nodes that a rotation waits for
}

// SealingSecret describes one of them.
type SealingSecret struct {
	Number uint32
	Made   time.Time // zero: with the cluster, or not known
	Seals  bool      // new ids
	Waits  bool      // to seal, until all nodes know it
	Ends   time.Time // when it is dropped; zero: it seals, waits, or may still be sealed with
}

// secretService answers stint.v1.SecretService.
type secretService struct{ secrets SecretAdmin } // nil: not known yet

func (s secretService) register(d *registry) {
	unary(d, auth.Cluster, stintv1connect.SecretServiceListProcedure, s.list, readOnly)
	unary(d, auth.Cluster, stintv1connect.SecretServiceRotateProcedure, s.rotate)
	unary(d, auth.Cluster, stintv1connect.SecretServiceDropOldProcedure, s.dropOld)
}

func (s secretService) list(ctx context.Context, _ *stintv1.ListSecretsRequest) (*stintv1.ListSecretsResponse, error) {
	if s.secrets == nil {
		return nil, errNoCluster
	}
	status, err := s.secrets.Secrets(ctx)
	if err != nil {
		return nil, err
	}
	response := &stintv1.ListSecretsResponse{WaitingFor: status.Unconfirmed}
	for _, one := range status.Secrets {
		state := "opens"
		switch {
		case one.Seals:
			state = "seals"
		case one.Waits:
			state = "waits"
		}
		response.Secrets = append(response.Secrets, &stintv1.Secret{Number: one.Number, MadeAt: momentOf(one.Made), State: state,
			EndsAt: momentOf(one.Ends)})
	}
	return response, nil
}

func (s secretService) rotate(ctx context.Context, _ *stintv1.RotateSecretRequest) (*stintv1.RotateSecretResponse, error) {
	who, err := s.actor(ctx)
	if err != nil {
		return nil, err
	}
	number, err := s.secrets.Rotate(ctx, who)
	if err != nil {
		return nil, err
	}
	return &stintv1.RotateSecretResponse{Number: number}, nil
}

func (s secretService) dropOld(ctx context.Context, _ *stintv1.DropOldSecretsRequest) (*stintv1.DropOldSecretsResponse, error) {
	who, err := s.actor(ctx)
	if err != nil {
		return nil, err
	}
	dropped, err := s.secrets.DropOld(ctx, who)
	if err != nil {
		return nil, err
	}
	return &stintv1.DropOldSecretsResponse{Numbers: dropped}, nil
}

// actor is callerOf for calls that need the SecretAdmin.
func (s secretService) actor(ctx context.Context) (string, error) {
	if s.secrets == nil {
		return "", errNoCluster
	}
	return callerOf(ctx)
}
