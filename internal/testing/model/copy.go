package model

import (
	"fmt"
	"slices"
)

// copied is a Model with the same numbers that shares nothing with m, for questions that change a Model.
func (m *Model) copied() *Model { return &Model{limit: m.limit, memory: copyOf(m.memory)} }

func copyOf(m memory) memory {
	switch m := m.(type) {
	case *cells:
		return new(m.copied())
	case *epochWindow:
		return &epochWindow{m.cells.copied()}
	case *weightedWindow:
		return &weightedWindow{m.cells.copied()}
	case *anchoredWindow:
		return new(*m)
	case *periods:
		return new(*m)
	case *total:
		return new(*m)
	case *integer: // its number is replaced, never changed
		return new(*m)
	case *bucket: // its fractions are replaced, never changed
		return new(*m)
	case *arrivals:
		return new(*m)
	case *carried:
		c := *m
		c.next = copyOf(m.next)
		return &c
	}
	panic(fmt.Sprintf("model: %T cannot be copied", m))
}

func (c cells) copied() cells {
	c.all = slices.Clone(c.all)
	return c
}
