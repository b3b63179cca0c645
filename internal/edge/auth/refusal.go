package auth

// Refusal is why a request is not served. Nothing of the request was done.
type Refusal struct {
	Kind    Kind
	Message string // for the caller: it repeats no token, and names nothing that the caller may not see
}

// Kind is what the caller can do about a Refusal.
type Kind uint8

const (
	Unproven    Kind = iota // authenticate
	NotGranted              // ask for more rights
	Unavailable             // ask again, or another node
)

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

var (
	errNoToken = &Refusal{Unproven, "this server asks for a token: send one (--token-file FILE or STINT_TOKEN; " +
		"over HTTP Authorization: Bearer TOKEN); nothing was done"}
	errNoTokensYet = &Refusal{Unproven, "this server can be reached by others and has no tokens yet: " +
		"make the first one on its machine, with stint token create NAME --admin --data-dir DIR; nothing was done"}
	errWrong = &Refusal{Unproven, "the token or role is not known here, has expired or was revoked; " +
		"nothing was done"}
	// Young is the refusal by a guard that does not have the tokens yet. It implies nothing about the caller.
	Young = &Refusal{Unavailable, "this node does not know yet which tokens are valid; " +
		"nothing was done; ask again"}
	errStale = &Refusal{Unavailable, "this node has not heard for 10 s which tokens are valid, so only check, " +
		"settle, read and lease are served; nothing was done; ask another node"}
)

// WrongName is the refusal of a right token under another token's name.
var WrongName = errWrong

// NotGrantedError is the refusal of an operation that no grant of the caller covers. It repeats only parts of the
// request, so that it does not reveal what exists.
func NotGrantedError(op Op) *Refusal {
	return &Refusal{NotGranted, "this token or role does not allow " + op.String() + " here; nothing was done"}
}
