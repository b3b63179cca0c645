package api

import (
	"context"
	"fmt"
	"slices"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/auth"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

const noteBytesMax = 512

// policyService answers stint.v1.PolicyService.
type policyService struct {
	revision func() *policy.Revision // nil: none known
	cluster  ClusterAdmin            // nil: not known yet
	decider  Decider                 // overrides are stored beside the counters of their keys
}

func (s policyService) register(d *registry) {
	unary(d, auth.Observe, stintv1connect.PolicyServiceListProcedure, s.list, readOnly)
	unary(d, auth.Policies, stintv1connect.PolicyServiceApplyProcedure, s.apply)
	unary(d, auth.Observe, stintv1connect.PolicyServiceHistoryProcedure, s.history, readOnly)
	unary(d, auth.Override, stintv1connect.PolicyServicePutOverrideProcedure, s.putOverride)
	unary(d, auth.Override, stintv1connect.PolicyServiceDeleteOverrideProcedure, s.deleteOverride)
}

var errNoPolicies = &shard.Error{Code: shard.Unavailable, Message: "this node does not know the policies yet; ask again"}

func (s policyService) list(context.Context, *stintv1.ListPoliciesRequest) (*stintv1.ListPoliciesResponse, error) {
	revision := s.revision()
	if revision == nil {
		return nil, errNoPolicies
	}
	return &stintv1.ListPoliciesResponse{Policies: PolicyMessages(revision.Set), Version: revision.Version}, nil
}

// apply compares the new policies with those that this node knows, which may be slightly out of date, and
// expected_version with the version in force.
func (s policyService) apply(ctx context.Context, m *stintv1.ApplyRequest) (*stintv1.ApplyResponse, error) {
	set, err := applySet(m)
	if err != nil {
		return nil, err
	}
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	revision := s.revision()
	if revision == nil {
		return nil, errNoPolicies
	}
	response := &stintv1.ApplyResponse{Version: revision.Version, Changes: changeMessages(policy.Diff(revision.Set, set))}
	if m.DryRun {
		if m.ExpectedVersion != nil && *m.ExpectedVersion != revision.Version {
			return nil, VersionConflict(*m.ExpectedVersion, revision.Version)
		}
		return response, nil
	}
	if s.cluster == nil {
		return nil, errNoCluster
	}
	response.Version, response.PendingShards, err = s.cluster.Apply(ctx, set, m.ExpectedVersion, who, m.Note)
	if err != nil {
		return nil, err
	}
	return response, nil
}

// history lists the versions of the policies, newest first.
func (s policyService) history(ctx context.Context, _ *stintv1.PolicyHistoryRequest) (*stintv1.PolicyHistoryResponse, error) {
	if s.cluster == nil {
		return nil, errNoCluster
	}
	changes, err := s.cluster.PolicyHistory(ctx)
	if err != nil {
		return nil, err
	}
	response := &stintv1.PolicyHistoryResponse{}
	for _, c := range slices.Backward(changes) {
		response.Versions = append(response.Versions, &stintv1.PolicyVersion{Version: c.Version, At: timestampOf(c.At),
			Actor: c.Actor, Note: c.Note})
	}
	return response, nil
}

func (s policyService) putOverride(
	ctx context.Context, m *stintv1.PutOverrideRequest,
) (*stintv1.PutOverrideResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	r, err := putOverrideRequest(m, who)
	if err == nil {
		err = grantedRequest(callerIn(ctx), auth.Override, &r)
	}
	if err != nil {
		return nil, err
	}
	if _, err := decide(ctx, s.decider, r); err != nil {
		return nil, ofAdjust(err)
	}
	return &stintv1.PutOverrideResponse{}, nil
}

func (s policyService) deleteOverride(
	ctx context.Context, m *stintv1.DeleteOverrideRequest,
) (*stintv1.DeleteOverrideResponse, error) {
	who, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	r, err := deleteOverrideRequest(m, who)
	if err == nil {
		err = grantedRequest(callerIn(ctx), auth.Override, &r)
	}
	if err != nil {
		return nil, err
	}
	d, err := decide(ctx, s.decider, r)
	if err != nil {
		return nil, ofAdjust(err)
	}
	return &stintv1.DeleteOverrideResponse{Deleted: d.Index > 0}, nil
}

// applySet translates and validates the policies.
func applySet(m *stintv1.ApplyRequest) (*policy.Set, error) {
	if problem := noteProblem(m.Note); problem != "" {
		return nil, shard.Invalidf("note", "%s", problem)
	}
	if len(m.Policies) == 0 { // a forgotten field looks the same, and would end every policy
		return nil, shard.Invalidf("policies", "are missing: a set has at least one")
	}
	set, err := PoliciesOf(m.Policies)
	if err != nil {
		return nil, err
	}
	if path, problem := set.Mistake(); problem != "" {
		return nil, shard.Invalidf(path, "%s", problem)
	}
	return set, nil
}

// VersionConflict returns the error of an Apply that expected another version than the one in force.
func VersionConflict(expected, inForce uint64) error {
	return &shard.Error{Code: shard.Conflict, Field: "expected_version", Message: fmt.Sprintf(
		"version %d was expected, and version %d is in force; nothing was changed", expected, inForce)}
}

func changeMessages(changes []policy.Change) []*stintv1.PolicyChange {
	messages := make([]*stintv1.PolicyChange, len(changes))
	for i, c := range changes {
		messages[i] = &stintv1.PolicyChange{}
		if c.Before != nil {
			messages[i].Before = policyOf(c.Before)
		}
		if c.After != nil {
			messages[i].After = policyOf(c.After)
		}
	}
	return messages
}
