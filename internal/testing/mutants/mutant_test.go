package mutants

import (
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// mutant is the module without one of its guards.
type mutant struct {
	mark
	source *source
	edit   edit
	seenBy suite
}

// text is the mutant's file.
func (m *mutant) text() (string, error) {
	lines, err := m.edit(m.source, m.mark)
	if err != nil {
		return "", fmt.Errorf("%s, in %s: %w", m.name, m.source.name, err)
	}
	return m.source.with(m.mark, lines), nil
}

// dir is the package that the guard is in, below the module's root.
func (m *mutant) dir() string { return path.Dir(m.source.name) }

// everyMutant joins the marks of the source with the tables. There must be one of each name on both sides.
func everyMutant() (all []*mutant, err error) {
	sources, err := readSources()
	byName := make(map[string]*mutant)
	for _, s := range sources {
		for _, mark := range s.marks {
			if byName[mark.name] != nil {
				err = errors.Join(err, fmt.Errorf("two marks of %s, the second one in %s", mark.name, s.name))
			}
			byName[mark.name] = &mutant{mark: mark, source: s}
			all = append(all, byName[mark.name])
		}
	}
	for _, g := range tables {
		for name, edit := range g.edits {
			switch m := byName[name]; {
			case m == nil:
				err = errors.Join(err, fmt.Errorf("no mark of %s in the source: put it beside the guard", name))
			case m.edit != nil:
				err = errors.Join(err, fmt.Errorf("the tables have %s twice", name))
			default:
				m.edit, m.seenBy = edit, g.seenBy
			}
		}
	}
	for _, m := range all {
		if m.edit == nil {
			err = errors.Join(err, fmt.Errorf("the mark of %s, in %s, has no entry in the tables",
				m.name, m.source.name))
		}
	}
	slices.SortFunc(all, func(a, b *mutant) int { return strings.Compare(a.name, b.name) })
	return all, err
}

// fits returns an error unless the mutant is other Go than the source.
func (m *mutant) fits() error {
	text, err := m.text()
	switch {
	case err != nil:
		return err
	case text == m.source.text:
		return fmt.Errorf("%s, in %s, changes nothing", m.name, m.source.name)
	}
	if _, err = parser.ParseFile(token.NewFileSet(), m.source.name, text, parser.SkipObjectResolution); err != nil {
		return fmt.Errorf("%s, in %s, is no Go: %w", m.name, m.source.name, err)
	}
	return nil
}
