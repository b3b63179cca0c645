package mutants

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"regexp"
	"slices"
)

var (
	hashFlag  = flag.String("hash", "", "judge what -since says, and some more that this text draws")
	sinceFlag = flag.String("since", "", "with -hash: judge the mutants in what has changed since this commit")
	mostFlag  = flag.Int("most", 80, "with -hash: how many of those are judged at most")
	drawnFlag = flag.Int("drawn", 20, "with -hash: how many more are drawn")
)

// choice is the mutants that are judged, and why those.
type choice struct {
	mutants []*mutant
	why     string
}

// chosen is the choice that the flags make.
func chosen(everyone []*mutant) (choice, error) {
	if *hashFlag != "" {
		c, known := changesSince(*sinceFlag)
		if !known {
			return drawPackages(everyone), nil
		}
		return draw(everyone, c.concern), nil
	}
	pattern, err := regexp.Compile("^(?:" + *judgeFlag + ")$")
	if err != nil {
		return choice{}, err
	}
	those, _ := split(everyone, func(m *mutant) bool {
		return pattern.MatchString(m.name) || pattern.MatchString(m.seenBy.pkg)
	})
	return choice{those, fmt.Sprintf("those that match %q", *judgeFlag)}, nil
}

// draw takes the mutants that a change concerns, but not too many, and some of the others.
func draw(everyone []*mutant, concerned func(*mutant) bool) choice {
	order := shuffled(everyone)
	near, others := split(order, concerned)
	judged, drawn := near[:min(*mostFlag, len(near))], others[:min(*drawnFlag, len(others))]
	why := fmt.Sprintf("%d in what has changed since %s, and %d drawn from the others; "+
		"the full run has %d more in what has changed, and the %d that need luck",
		len(judged), *sinceFlag, len(drawn), len(near)-len(judged), len(everyone)-len(order))
	return choice{slices.Concat(judged, drawn), why}
}

// drawPackages draws some mutants, and takes all those that the same packages judge, but not too many.
func drawPackages(everyone []*mutant) choice {
	order := shuffled(everyone)
	packages := make(map[string]bool)
	for _, m := range order[:min(*drawnFlag, len(order))] {
		packages[m.seenBy.pkg] = true
	}
	near, _ := split(order, func(m *mutant) bool { return packages[m.seenBy.pkg] })
	judged := near[:min(*mostFlag, len(near))]
	return choice{judged, fmt.Sprintf("drawn with others of the same packages, since the commit %q is not known here; "+
		"the full run has the others", *sinceFlag)}
}

// shuffled is those that need no luck, in an order that the hash determines.
func shuffled(everyone []*mutant) []*mutant {
	key := func(m *mutant) []byte {
		sum := sha256.Sum256([]byte(*hashFlag + " " + m.name))
		return sum[:]
	}
	_, order := split(everyone, func(m *mutant) bool { return m.seenBy.luck })
	slices.SortFunc(order, func(a, b *mutant) int { return bytes.Compare(key(a), key(b)) })
	return order
}

func split(all []*mutant, is func(*mutant) bool) (those, others []*mutant) {
	for _, m := range all {
		if is(m) {
			those = append(those, m)
		} else {
			others = append(others, m)
		}
	}
	return those, others
}
