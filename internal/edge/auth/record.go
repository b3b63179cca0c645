package auth

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Record is what the cluster stores about a token or a role, as JSON: its fields keep their names.
type Record struct {
	Name    string  // unique among tokens and roles together
	ID      string  `json:",omitempty"` // "" for a role, which a client certificate proves
	Hash    []byte  `json:",omitempty"` // of the token's text
	Former  *Former `json:",omitempty"` // the token that was replaced last; may be nil
	Created int64   // Unix microseconds
	Expires int64   `json:",omitempty"` // Unix microseconds; 0 means never
	Creator string  `json:",omitempty"` // the actor of the call that made it
	// Line has the names of the tokens and roles that made it: the first one, the one that this one made, and so on.
	// Then come those that have rotated it, each with its own. It names also those that have ended since.
	Line   []string `json:",omitempty"`
	Grants []Grant
}

// Former is a replaced token that is still accepted for a while.
type Former struct {
	ID   string
	Hash []byte
	Ends int64 // Unix microseconds; the token ends earlier if its record does
}

// nameForm is the form of a name, which appears in certificates, in the audit log and on command lines.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// actor names the token or role in audit logs.
func (r *Record) actor() string {
	if r.IsRole() {
		return "role:" + r.Name
	}
	return "token:" + r.Name
}

// NameProblem returns the problem with the name of a token or a role, or "".
func NameProblem(name string) string {
	if !nameForm.MatchString(name) {
		return "must be 1 to 64 of A-Z, a-z, 0-9, dot, dash and underscore, and begin with a letter or digit"
	}
	return ""
}

// Problem returns the problem with a requested record, or "".
func (r *Record) Problem() string {
	if problem := NameProblem(r.Name); problem != "" {
		return "name: " + problem
	}
	if len(r.Grants) == 0 || len(r.Grants) > grantsMax {
		return fmt.Sprintf("grants: are %d: 1 to %d are allowed", len(r.Grants), grantsMax)
	}
	for i := range r.Grants {
		if problem := r.Grants[i].Problem(); problem != "" {
			return fmt.Sprintf("grants[%d]: %s", i, problem)
		}
	}
	return ""
}

// SetToken sets the id and hash of the record to those of a token's text. It fails if the text is not a token.
func (r *Record) SetToken(text string) error {
	id, hash, err := ParseToken(text)
	if err == nil {
		r.ID, r.Hash = string(id[:]), hash[:]
	}
	return err
}

// IsRole reports whether a client certificate proves the record instead of a secret.
func (r *Record) IsRole() bool { return r.ID == "" }

// TextOfGrants lists the grants for display.
func (r *Record) TextOfGrants() string {
	texts := make([]string, len(r.Grants))
	for i := range r.Grants {
		texts[i] = r.Grants[i].String()
	}
	return strings.Join(texts, "; ")
}

// AfterRestore returns the records of a backup as far as a restored cluster may trust them: a token may have been
// revoked since the backup, so each keeps only the grants that a login or a quota needs, and none that changes what
// others may do.
func AfterRestore(records []Record) []Record {
	kept := slices.Clone(records)
	for i := range kept {
		var grants []Grant
		for _, g := range kept[i].Grants {
			g.Ops = slices.DeleteFunc(slices.Clone(g.Ops), func(name string) bool {
				return !opOf(name).survivesSilence()
			})
			if len(g.Ops) > 0 {
				grants = append(grants, g)
			}
		}
		kept[i].Grants = grants
	}
	return kept
}

// readable returns the reason why a stored record cannot be used, or nil. It asks less than Problem does of a new one.
func (r *Record) readable() error {
	switch {
	case NameProblem(r.Name) != "":
		return fmt.Errorf("its name %s", NameProblem(r.Name))
	case (r.ID != "" || len(r.Hash) > 0) && (len(r.ID) != idLength || len(r.Hash) != len(Hash{})):
		return fmt.Errorf("it has an id of %d bytes and a hash of %d", len(r.ID), len(r.Hash))
	case r.Former != nil && (len(r.Former.ID) != idLength || len(r.Former.Hash) != len(Hash{})):
		return fmt.Errorf("its former token has an id of %d bytes and a hash of %d",
			len(r.Former.ID), len(r.Former.Hash))
	}
	return nil
}
