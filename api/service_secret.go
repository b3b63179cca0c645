package api

import (
	"context"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/cluster/placement"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/limit"
)

// SecretAdmin changes the secrets that seal ids, for the API. It may be called concurrently. Errors are *shard.Error;
// shard.Conflict is a change that the present state forbids.
type SecretAdmin interface {
	// Secrets returns the secrets, and the nodes that a rotation waits for.
	Secrets(ctx context.Context) (s *placement.Secrets, unconfirmed []string, err error)
	// Rotate adds a secret, which seals as soon as all nodes know it, and returns its number. It does not wait. who is
	// the actor.
	Rotate(ctx context.Context, who string) (number uint32, err error)
	// DropOld drops every secret but the sealing one, and returns their numbers.
	DropOld(ctx context.Context, who string) (dropped []uint32, err error)
}

// secretService answers stint.v1.SecretService.
type secretService struct{ secrets SecretAdmin }

func (s secretService) register(d *registry) {
	unary(d, auth.Cluster, stintv1connect.SecretServiceListProcedure, s.list, readOnly)
	change(d, auth.Cluster, stintv1connect.SecretServiceRotateProcedure, s.rotate)
	change(d, auth.Cluster, stintv1connect.SecretServiceDropOldProcedure, s.dropOld)
}

// list returns the state of the secrets, without their values.
func (s secretService) list(ctx context.Context, _ *stintv1.ListSecretsRequest) (*stintv1.ListSecretsResponse, error) {
	secrets, unconfirmed, err := s.secrets.Secrets(ctx)
	if err != nil {
		return nil, err
	}
	response := &stintv1.ListSecretsResponse{WaitingFor: unconfirmed}
	for _, one := range secrets.Sealing {
		state := "opens"
		switch one.Number {
		case secrets.SealsWith():
			state = "seals"
		case secrets.Waiting():
			state = "waits"
		}
		response.Secrets = append(response.Secrets, &stintv1.Secret{
			Number: one.Number,
			MadeAt: optionalTimestamp(limit.Time(one.Made)),
			State:  state,
			EndsAt: optionalTimestamp(limit.Time(one.Ends)),
		})
	}
	return response, nil
}

func (s secretService) rotate(ctx context.Context, who string, _ *stintv1.RotateSecretRequest) (
	*stintv1.RotateSecretResponse, error) {
	number, err := s.secrets.Rotate(ctx, who)
	return &stintv1.RotateSecretResponse{Number: number}, err
}

func (s secretService) dropOld(ctx context.Context, who string, _ *stintv1.DropOldSecretsRequest) (
	*stintv1.DropOldSecretsResponse, error) {
	dropped, err := s.secrets.DropOld(ctx, who)
	return &stintv1.DropOldSecretsResponse{Numbers: dropped}, err
}
