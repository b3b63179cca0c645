package policy

// OnExceeded is the fate of a request that exceeds a limit. In every case it does not pass, and nothing is counted.
type OnExceeded uint8

// The ways to treat such a request. A limit with ExceededChallenge is called soft, any other one hard.
const (
	ExceededDeny      OnExceeded = 0 // it is denied
	ExceededChallenge OnExceeded = 1 // it is challenged, unless a hard limit or a block denies it
)
