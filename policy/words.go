package policy

import "github.com/stint-io/stint/limit"

// The words of a file for enumerated values: the index of each word is its number.
var (
	onExpireWords   = []string{OnExpireCancel: "cancel", OnExpireCommit: "commit"}
	onChangeWords   = []string{AsIs: "as_is", Proportional: "proportional", Additive: "additive", Restart: "reset"}
	onRecoveryWords = []string{RecoverFull: "full", RecoverKeep: "keep"}
	unknownKeyWords = []string{UnknownKeyAllow: "allow", UnknownKeyDeny: "deny"}
	anchorWords     = []string{limit.FixedWindow: "epoch", limit.FixedWindowFirstHit: "first_hit"}
	entryModeWords  = []string{EntryEnforce: "enforce", EntryCount: "count", EntryShadow: "shadow"}
	unitWords       = []string{limit.Minute: "minute", limit.Hour: "hour", limit.Day: "day", limit.Week: "week",
		limit.Month: "month", limit.Year: "year"}
)
