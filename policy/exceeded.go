package policy

// OnExceeded is what becomes of a request that a limit has no room for. Either way it does not pass, and nothing is
// counted.
type OnExceeded uint8

// The ways to treat such a request. A limit with ExceededChallenge is called soft, any other one hard.
const (
	ExceededDeny      OnExceeded = 0 // it is denied
	ExceededChallenge OnExceeded = 1 // it is challenged, unless a hard limit or a block denies it
)
