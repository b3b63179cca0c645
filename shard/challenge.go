package shard

// Challenged reports whether a denial is a challenge: every limit that denies is soft, and no block denies. The caller
// may pass once it has shown that it is a person, and the application has reset those limits.
func (d *Decision) Challenged() bool {
	soft := false
	for i := range d.Limits {
		s := &d.Limits[i]
		denies := !s.Allowed && !s.Shadow && !s.Unlimited
		if s.Blocked || denies && !s.Soft { //mutant:soft-hides-block //mutant:soft-hides-hard
			return false
		}
		soft = soft || denies
	}
	return soft && !d.Allowed
}
