package bench

// Fate is the outcome of one check.
type Fate uint8

// The fates.
const (
	Allowed Fate = iota
	Denied
	Failed  // certainly not counted
	Unknown // counted once or not at all
)

func fateOf(maybeApplied bool) Fate {
	if maybeApplied {
		return Unknown
	}
	return Failed
}
