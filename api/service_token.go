package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/shard"
)

// TokenAdmin creates and revokes tokens for the API. It may be called concurrently. Errors are *shard.Error.
type TokenAdmin interface {
	// Create makes a token, or a role, which has no text. The record has a name, grants and an end. who is the actor.
	Create(ctx context.Context, r auth.Record, role bool, who string) (text string, err error)
	// Records returns all records by name.
	Records(ctx context.Context) ([]auth.Record, error)
	// List is Records with slower facts: the last use of each record, as far as the answering nodes know, and whether
	// requests need a token.
	List(ctx context.Context) (records []auth.Record, lastUsed map[string]time.Time, required bool, err error)
	// Rotate replaces the token of a record; the former one is accepted for overlap. may checks the record first, and
	// adds to its Line; it may be called more than once.
	Rotate(
		ctx context.Context, name string, overlap time.Duration, may func(*auth.Record) error, who string,
	) (text string, err error)
	// Revoke ends a record. may checks it first.
	Revoke(ctx context.Context, name string, may func(*auth.Record) error, who string) error
	// TurnOff stops requiring tokens until one is created.
	TurnOff(ctx context.Context, who string) error
}

// overlapMax is the longest time that a former token is accepted.
const overlapMax = 31 * 24 * time.Hour

// tokenService answers stint.v1.TokenService.
type tokenService struct{ tokens TokenAdmin }

func (s tokenService) register(d *registry) {
	change(d, auth.Tokens, stintv1connect.TokenServiceCreateProcedure, s.create)
	unary(d, auth.Tokens, stintv1connect.TokenServiceListProcedure, s.list, readOnly)
	change(d, auth.Tokens, stintv1connect.TokenServiceRotateProcedure, s.rotate)
	change(d, auth.Tokens, stintv1connect.TokenServiceRevokeProcedure, s.revoke)
	change(d, auth.Tokens, stintv1connect.TokenServiceTurnOffProcedure, s.turnOff)
}

func (s tokenService) create(ctx context.Context, who string, m *stintv1.CreateTokenRequest) (
	*stintv1.CreateTokenResponse, error) {
	record, err := recordOf(m)
	if err != nil {
		return nil, err
	}
	caller := callerIn(ctx)
	if err := mayLend(caller, &record); err != nil {
		return nil, err
	}
	record.Line = caller.Line()
	text, err := s.tokens.Create(ctx, record, m.Role, who)
	if err == nil && len(record.Line) > 0 {
		err = s.stillThere(ctx, &record, who)
	}
	if err != nil {
		return nil, err
	}
	return &stintv1.CreateTokenResponse{Token: text}, nil
}

// stillThere takes a new record back if the record of its maker has ended, which this node may not know yet. So a call
// that ends the maker's finds the new record when it looks for what the maker has made, or the new one is taken back.
func (s tokenService) stillThere(ctx context.Context, r *auth.Record, who string) error {
	records, err := s.tokens.Records(ctx)
	if err != nil || hasRecord(records, r.Line[len(r.Line)-1]) { //mutant:ended-token-makes-one
		return err
	}
	if err := s.tokens.Revoke(ctx, r.Name, func(*auth.Record) error { return nil }, who); err != nil {
		return err
	}
	return &auth.Refusal{Kind: auth.Unproven, Message: "the token or role was revoked meanwhile; nothing was made"}
}

func hasRecord(records []auth.Record, name string) bool {
	return slices.ContainsFunc(records, func(r auth.Record) bool { return r.Name == name })
}

// recordOf translates and validates a request for a token.
func recordOf(m *stintv1.CreateTokenRequest) (auth.Record, error) {
	r := auth.Record{Name: m.Name}
	for _, g := range m.Grants {
		r.Grants = append(r.Grants, GrantOf(g))
	}
	if problem := r.Problem(); problem != "" {
		return r, &shard.Error{Code: shard.Invalid, Message: problem}
	}
	if m.ExpiresAt != nil {
		ends, err := instantOf("expires_at", m.ExpiresAt)
		if err != nil {
			return r, err
		}
		r.Expires = int64(ends)
	}
	return r, nil
}

// GrantOf translates a message into a grant.
func GrantOf(m *stintv1.Grant) auth.Grant {
	return auth.Grant{Namespaces: m.Namespaces, Policies: m.Policies, Keys: m.Keys, Tiers: m.Tiers, Ops: m.Ops}
}

// GrantMessage translates a grant into a message.
func GrantMessage(g *auth.Grant) *stintv1.Grant {
	return &stintv1.Grant{Namespaces: g.Namespaces, Policies: g.Policies, Keys: g.Keys, Tiers: g.Tiers, Ops: g.Ops}
}

// mayGiveAway refuses callers that lack a right that a record grants: otherwise the right to make tokens would be all
// rights.
func mayGiveAway(who *auth.Caller, r *auth.Record) error {
	for i := range r.Grants {
		if !who.MayGrant(&r.Grants[i]) { //mutant:token-makes-a-stronger-one
			return &auth.Refusal{Kind: auth.NotGranted, Message: "the grant " + r.Grants[i].String() +
				" is more than this token or role has itself; nothing was done"}
		}
	}
	return nil
}

// mayLend is mayGiveAway for a secret that another person gets: it must not outlive the caller's rights.
func mayLend(who *auth.Caller, r *auth.Record) error {
	if err := mayGiveAway(who, r); err != nil {
		return err
	}
	if !who.MayGrantUntil(r.Expires) { //mutant:token-makes-one-without-end
		return &auth.Refusal{Kind: auth.NotGranted, Message: "it would be good for longer than this token or role, " +
			"which ends at " +
			time.UnixMicro(who.Ends()).UTC().Format(time.RFC3339) + ": give it an end (--expires) that is no later; " +
			"nothing was done"}
	}
	return nil
}

func (s tokenService) list(ctx context.Context, _ *stintv1.ListTokensRequest) (*stintv1.ListTokensResponse, error) {
	records, lastUsed, required, err := s.tokens.List(ctx)
	if err != nil {
		return nil, err
	}
	response := &stintv1.ListTokensResponse{Required: required}
	for i := range records {
		response.Tokens = append(response.Tokens, tokenMessage(&records[i], lastUsed[records[i].Name]))
	}
	return response, nil
}

func tokenMessage(r *auth.Record, lastUsed time.Time) *stintv1.Token {
	m := &stintv1.Token{
		Name:      r.Name,
		Id:        r.ID,
		Creator:   r.Creator,
		CreatedAt: timestampOf(limit.Time(r.Created)),
		ExpiresAt: optionalTimestamp(limit.Time(r.Expires)),
		LastUsed:  Moment(lastUsed),
	}
	for i := range r.Grants {
		m.Grants = append(m.Grants, GrantMessage(&r.Grants[i]))
	}
	if r.Former != nil {
		m.FormerUntil = timestamppb.New(time.UnixMicro(r.Former.Ends))
	}
	return m
}

func (s tokenService) rotate(ctx context.Context, who string, m *stintv1.RotateTokenRequest) (
	*stintv1.RotateTokenResponse, error) {
	overlap, err := overlapOf(m.Overlap)
	if err != nil {
		return nil, err
	}
	caller := callerIn(ctx)
	text, err := s.tokens.Rotate(ctx, m.Name, overlap, func(r *auth.Record) error {
		r.Line = lineWith(r, caller) //mutant:rotated-token-stays
		return mayLend(caller, r)
	}, who)
	if err == nil {
		err = s.stillKnown(ctx, caller, m.Name)
	}
	if err != nil {
		return nil, err
	}
	return &stintv1.RotateTokenResponse{Token: text}, nil
}

// lineWith returns the Line of a record that a caller rotates: the caller learns its secret, as if it had made it.
func lineWith(r *auth.Record, caller *auth.Caller) []string {
	line := slices.Clone(r.Line)
	for _, name := range caller.Line() {
		if name != r.Name && !slices.Contains(line, name) {
			line = append(line, name)
		}
	}
	return line
}

// stillKnown withholds a new secret from a caller with a record that has ended, which this node may not know yet.
func (s tokenService) stillKnown(ctx context.Context, caller *auth.Caller, name string) error {
	line := caller.Line()
	if len(line) == 0 {
		return nil
	}
	records, err := s.tokens.Records(ctx)
	if err != nil || hasRecord(records, line[len(line)-1]) { //mutant:ended-token-learns-a-secret
		return err
	}
	return &auth.Refusal{Kind: auth.Unproven, Message: fmt.Sprintf(
		"the token or role was revoked meanwhile; %q has a new secret, which nobody knows: rotate it again", name)}
}

// revoke ends a record and, if that is asked for, what it has made: each in a change of its own, so a call that fails
// may be repeated, which ends the rest.
func (s tokenService) revoke(ctx context.Context, who string, m *stintv1.RevokeTokenRequest) (
	*stintv1.RevokeTokenResponse, error) {
	caller, response := callerIn(ctx), &stintv1.RevokeTokenResponse{}
	end := func(name string) error {
		return s.tokens.Revoke(ctx, name, func(r *auth.Record) error { return mayGiveAway(caller, r) }, who)
	}
	records, err := s.tokens.Records(ctx)
	if err != nil {
		return nil, err
	}
	if ended := !hasRecord(records, m.Name) && m.Children && len(childrenOf(m.Name, records)) > 0; !ended {
		if err := end(m.Name); err != nil { // first, so that it makes no more
			return nil, err
		}
	}
	for {
		if records, err = s.tokens.Records(ctx); err != nil { // it may have made one until now
			return nil, err
		}
		children := childrenOf(m.Name, records)
		response.Children = append(response.Children, children...)
		if !m.Children || len(children) == 0 { //mutant:children-stay
			slices.Sort(response.Children)
			return response, nil
		}
		for _, name := range children {
			if err := end(name); err != nil {
				return nil, err
			}
		}
	}
}

// childrenOf returns the names of the records made by a record, and by those that it has made.
func childrenOf(name string, records []auth.Record) (children []string) {
	for i := range records {
		if slices.Contains(records[i].Line, name) {
			children = append(children, records[i].Name)
		}
	}
	return children
}

// turnOff is answered on the local socket alone: a stolen token must not open the cluster to everyone.
func (s tokenService) turnOff(ctx context.Context, who string, _ *stintv1.TurnOffTokensRequest) (
	*stintv1.TurnOffTokensResponse, error) {
	if exchangeOf(ctx).port != auth.Local {
		return nil, &auth.Refusal{Kind: auth.NotGranted,
			Message: "tokens are turned off on a node's own machine only: stint token off --data-dir DIR; " +
				"nothing was done"}
	}
	return &stintv1.TurnOffTokensResponse{}, s.tokens.TurnOff(ctx, who)
}

// overlapOf reads how long a rotated secret stays valid.
func overlapOf(m *durationpb.Duration) (time.Duration, error) {
	if m == nil {
		return 0, nil
	}
	overlap := m.AsDuration()
	if m.CheckValid() != nil || overlap < 0 || overlap > overlapMax {
		return 0, shard.Invalidf("overlap", "is %v: 0 to %v are allowed", overlap, overlapMax)
	}
	return overlap, nil
}
