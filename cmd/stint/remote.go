package main

import (
	"fmt"
	"time"

	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
)

// remote has the flags of every command that calls a server.
type remote struct {
	Addr    string        `help:"Where the server is; of several, separated by commas, the first that answers is asked." default:"127.0.0.1:7400" env:"STINT_ADDR" placeholder:"URL"`
	Timeout time.Duration `help:"Give up after this long." default:"5s"`
	trust
	proof
	actor string // see as
}

// Validate implements kong.Validatable.
func (r remote) Validate() error {
	if r.Timeout <= 0 {
		return fmt.Errorf("--timeout: is %v: must be more than 0, as in 5s", r.Timeout)
	}
	if _, err := r.token(); err != nil {
		return err
	}
	return r.validAddr()
}

func (r remote) limits() stintv1connect.LimitServiceClient {
	return stintv1connect.NewLimitServiceClient(r.client(), anyAddress)
}

func (r remote) policies() stintv1connect.PolicyServiceClient {
	return stintv1connect.NewPolicyServiceClient(r.client(), anyAddress)
}

func (r remote) observe() stintv1connect.ObserveServiceClient {
	return stintv1connect.NewObserveServiceClient(r.client(), anyAddress)
}

func (r remote) cluster() stintv1connect.ClusterServiceClient {
	return stintv1connect.NewClusterServiceClient(r.client(), anyAddress)
}

func (r remote) secrets() stintv1connect.SecretServiceClient {
	return stintv1connect.NewSecretServiceClient(r.client(), anyAddress)
}

func (r remote) sinks() stintv1connect.SinkServiceClient {
	return stintv1connect.NewSinkServiceClient(r.client(), anyAddress)
}

func (r remote) tokens() stintv1connect.TokenServiceClient {
	return stintv1connect.NewTokenServiceClient(r.client(), anyAddress)
}
