package api

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/api/gen/stint/v1/stintv1connect"
	"github.com/stint-io/stint/internal/edge/auth"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// policyService answers stint.v1.PolicyService.
type policyService struct{ *Config }

func (s policyService) register(d *registry) {
	unary(d, auth.Observe, stintv1connect.PolicyServiceListProcedure, s.list, readOnly)
	change(d, auth.Policies, stintv1connect.PolicyServiceApplyProcedure, s.apply)
	unary(d, auth.Observe, stintv1connect.PolicyServiceHistoryProcedure, s.history, readOnly)
	unary(d, auth.Observe, stintv1connect.PolicyServiceGetVersionProcedure, s.getVersion, readOnly)
	change(d, auth.Override, stintv1connect.PolicyServicePutOverrideProcedure, s.putOverride)
	change(d, auth.Override, stintv1connect.PolicyServiceDeleteOverrideProcedure, s.deleteOverride)
}

var errNoPolicies = &shard.Error{Code: shard.Unavailable,
	Message: "this node does not know the policies yet; ask again"}

func (s policyService) list(context.Context, *stintv1.ListPoliciesRequest) (*stintv1.ListPoliciesResponse, error) {
	revision := s.revision()
	if revision == nil {
		return nil, errNoPolicies
	}
	return &stintv1.ListPoliciesResponse{Policies: PolicyMessages(revision.Set), Version: revision.Version,
		Rules: string(policy.FormatRules(revision.Set))}, nil
}

// apply compares the new policies with those that this node knows, which may be slightly out of date, and
// expected_version with the version in force.
func (s policyService) apply(ctx context.Context, who string, m *stintv1.ApplyRequest) (*stintv1.ApplyResponse, error) {
	revision := s.revision()
	if revision == nil {
		return nil, errNoPolicies
	}
	set, err := applySet(m, revision.Set)
	if err != nil {
		return nil, err
	}
	response := &stintv1.ApplyResponse{Version: revision.Version,
		Changes:           changeMessages(policy.Diff(revision.Set, set)),
		RuleChanges:       ruleChangeMessages(policy.DiffRules(revision.Set, set)),
		RekeyedNamespaces: revision.Set.Rekeyed(set)}
	if m.DryRun {
		if m.ExpectedVersion != nil && *m.ExpectedVersion != revision.Version {
			return nil, VersionConflict(*m.ExpectedVersion, revision.Version)
		}
		return response, nil
	}
	response.Version, response.PendingShards, err = s.Cluster.Apply(ctx, set, m.ExpectedVersion, m.Rekey, who, m.Note)
	if err != nil {
		return nil, err
	}
	return response, nil
}

// history lists the versions of the policies, newest first.
func (s policyService) history(
	ctx context.Context, _ *stintv1.PolicyHistoryRequest,
) (*stintv1.PolicyHistoryResponse, error) {
	changes, err := s.Cluster.PolicyHistory(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := s.Cluster.KeptPolicies(ctx)
	if err != nil {
		return nil, err
	}
	response := &stintv1.PolicyHistoryResponse{}
	for _, c := range slices.Backward(changes) {
		isKept := slices.ContainsFunc(kept, func(k shard.Document) bool { return k.Version == c.Version })
		response.Versions = append(response.Versions, &stintv1.PolicyVersion{Version: c.Version, At: timestampOf(c.At),
			Actor: c.Actor, Note: c.Note, Kept: isKept})
	}
	return response, nil
}

// getVersion returns an earlier version of the policies.
func (s policyService) getVersion(
	ctx context.Context, m *stintv1.GetPolicyVersionRequest,
) (*stintv1.GetPolicyVersionResponse, error) {
	kept, err := s.Cluster.KeptPolicies(ctx)
	if err != nil {
		return nil, err
	}
	versions := make([]string, len(kept))
	for i := range kept {
		if kept[i].Version == m.Version {
			set, err := policy.Parse(fmt.Sprintf("policies of version %d", m.Version), kept[i].Body)
			if err != nil { // an older release accepted policies that this one refuses
				return nil, &shard.Error{Code: shard.Conflict, Field: "version",
					Message: fmt.Sprintf("%d cannot be read: %v", m.Version, err)}
			}
			return &stintv1.GetPolicyVersionResponse{Policies: PolicyMessages(set),
				Rules: string(policy.FormatRules(set))}, nil
		}
		versions[i] = strconv.FormatUint(kept[i].Version, 10)
	}
	return nil, &shard.Error{Code: shard.PolicyNotFound, Field: "version",
		Message: fmt.Sprintf("%d is not kept; these are: %s", m.Version, strings.Join(versions, ", "))}
}

func (s policyService) putOverride(ctx context.Context, who string, m *stintv1.PutOverrideRequest) (
	*stintv1.PutOverrideResponse, error) {
	r, err := putOverrideRequest(m, who)
	if err == nil { // the tier is one that the request names, as that of a check
		err = granted(callerIn(ctx), s.policies(), auth.Override, r.Namespace,
			[]*stintv1.Entry{{Policy: m.Policy, Key: m.Key, Tier: m.Tier}})
	}
	if err != nil {
		return nil, err
	}
	d, err := decide(ctx, s.Decider, r)
	if err != nil {
		return nil, adjustError(err)
	}
	return &stintv1.PutOverrideResponse{Leases: leasesOf(d)}, nil
}

func (s policyService) deleteOverride(ctx context.Context, who string, m *stintv1.DeleteOverrideRequest) (
	*stintv1.DeleteOverrideResponse, error) {
	r, err := deleteOverrideRequest(m, who)
	if err == nil {
		err = grantedRequest(callerIn(ctx), auth.Override, &r)
	}
	if err != nil {
		return nil, err
	}
	d, err := decide(ctx, s.Decider, r)
	if err != nil {
		return nil, adjustError(err)
	}
	return &stintv1.DeleteOverrideResponse{Deleted: d.Index > 0, Leases: leasesOf(d)}, nil
}

// applySet translates and validates the policies. Rules that the request does not mention stay as they are in force.
func applySet(m *stintv1.ApplyRequest, inForce *policy.Set) (*policy.Set, error) {
	if err := invalid("note", noteProblem(m.Note)); err != nil {
		return nil, err
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
	if m.Rules == nil {
		return withRules(set, string(policy.FormatRules(inForce)))
	}
	return withRules(set, *m.Rules)
}

// VersionConflict returns the error of an Apply that expected a version other than the one in force.
func VersionConflict(expected, inForce uint64) error {
	return &shard.Error{Code: shard.Conflict, Field: "expected_version", Message: fmt.Sprintf(
		"version %d was expected, and version %d is in force; nothing was changed", expected, inForce)}
}

// RekeyNeeded returns the error of an Apply that would make all keys of namespaces new without being allowed to.
func RekeyNeeded(namespaces []string) error {
	return &shard.Error{Code: shard.Conflict, Field: "rekey",
		Message: fmt.Sprintf("is not set (--rekey), and the keys of %s would become hashed, or plain again: "+
			"all of them would be new, with nothing used, and their overrides and blocks would no longer be found; "+
			"nothing was changed",
			strings.Join(namespaces, ", "))}
}

func ruleChangeMessages(changes []policy.RuleChange) []*stintv1.RuleChange {
	messages := make([]*stintv1.RuleChange, len(changes))
	for i, c := range changes {
		messages[i] = &stintv1.RuleChange{Section: c.Section, Name: c.Name, Before: string(c.Before),
			After: string(c.After)}
	}
	return messages
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
