package raftfsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
)

// Layout of a bbolt file. It consists of pages. The first two are the meta pages, which describe the rest; the newer
// one is valid. The others are branch and leaf pages, which form trees.
const (
	boltPageHead = 16 // id (8) | kind (2) | elements (2) | overflow pages (4)
	// branch: position (4) | key length (4) | page (8); leaf: flags (4) | position | key length | value length
	boltElement = 16
	boltBranch  = 1
	boltLeaf    = 2
	boltBucket  = 1 // flag of an element whose value is a tree: root page (8), 0 for an inline page | sequence (8)
	// magic (4) | version (4) | page size (4) | flags (4) | root page (8) | sequence (8) | page of the free list (8) |
	// pages in use (8) | transaction (8) | fnv-1a of all before (8)
	boltMeta = 64
)

// boltTree is the content of a bbolt file.
type boltTree struct {
	bytes []byte
	page  uint64          // page size
	pages uint64          // pages in use
	seen  map[uint64]bool // pages that have a place in the tree already; the meta pages from the start
}

// checkBolt reads every page of a bbolt file that bbolt will read, before bbolt does. bbolt maps the file into memory
// and trusts its content, on a goroutine where panics cannot be recovered, so a truncated or overwritten file would end
// the process with a fault. The checksums of the values are checked elsewhere (boltFile.get).
func checkBolt(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file (its type is %v): remove it", path, info.Mode().Type())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	t := boltTree{bytes: b, seen: map[uint64]bool{0: true, 1: true}}
	root, err := t.root()
	if err == nil {
		err = t.walk(root, nil, nil)
	}
	if err != nil {
		return fmt.Errorf("%s is damaged: %w: %w", path, err, ErrCorrupt)
	}
	return nil
}

// root returns the root page named by the newer of the intact meta pages.
func (t *boltTree) root() (root uint64, err error) {
	var newest uint64
	for at := uint64(0); at+boltPageHead+boltMeta <= uint64(len(t.bytes)); at += t.page {
		meta := t.bytes[at+boltPageHead : at+boltPageHead+boltMeta]
		sum := fnv.New64a()
		sum.Write(meta[:56])
		word := func(at int) uint64 { return binary.NativeEndian.Uint64(meta[at:]) }
		if sum.Sum64() == word(56) && (root == 0 || word(48) > newest) {
			root, newest = word(16), word(48)
			t.page, t.pages = uint64(binary.NativeEndian.Uint32(meta[8:])), word(40)
		} else if t.page == 0 {
			t.page = uint64(os.Getpagesize())
		}
		if at > 0 || t.page < 1024 || t.page > 64<<10 {
			break
		}
	}
	if root == 0 {
		return 0, errors.New("neither of its descriptions can be read")
	}
	return root, nil
}

// span returns the bytes of a page together with its overflow pages. bbolt cannot handle a page that is used in two
// places, nor an overflow page that belongs to two pages.
func (t *boltTree) span(id uint64) ([]byte, error) {
	pages := min(t.pages, uint64(len(t.bytes))/t.page)
	if id >= pages {
		return nil, fmt.Errorf("page %d is behind the end", id)
	}
	b := t.bytes[id*t.page:]
	more := uint64(binary.NativeEndian.Uint32(b[12:]))
	if got := binary.NativeEndian.Uint64(b); got != id || more >= pages-id {
		return nil, fmt.Errorf("page %d says that it is %d, and %d more", id, got, more)
	}
	for at := id; at <= id+more; at++ {
		if t.seen[at] {
			return nil, fmt.Errorf("page %d stands in two places", at)
		}
		t.seen[at] = true //mutant:two-pages-claim-a-third
	}
	return b[:(more+1)*t.page], nil
}

// walk checks a page with keys that must be in [low, high); nil means no bound.
func (t *boltTree) walk(id uint64, low, high []byte) error {
	b, err := t.span(id)
	if err != nil {
		return err
	}
	return t.elements(fmt.Sprint("page ", id), b, low, high)
}

// elements checks a page, or an inline page within a value.
func (t *boltTree) elements(what string, b []byte, low, high []byte) error {
	kind, n := binary.NativeEndian.Uint16(b[8:]), int(binary.NativeEndian.Uint16(b[10:]))
	if kind != boltBranch && kind != boltLeaf || kind == boltBranch && n == 0 || boltPageHead+n*boltElement > len(b) {
		return fmt.Errorf("%s is of kind %d, with %d elements", what, kind, n)
	}
	found := make([]boltItem, n)
	for i := range found {
		item, ok := boltItemAt(b, boltPageHead+i*boltElement, kind)
		if !ok {
			return fmt.Errorf("element %d of %s is longer than it", i, what)
		}
		below := low == nil || bytes.Compare(item.key, low) >= 0
		if i > 0 {
			below = bytes.Compare(item.key, found[i-1].key) > 0
		}
		if !below || high != nil && bytes.Compare(item.key, high) >= 0 {
			return fmt.Errorf("element %d of %s is out of order", i, what)
		}
		found[i] = item
	}
	for i, item := range found {
		var err error
		switch {
		case kind == boltBranch && i+1 < n:
			err = t.walk(item.page, item.key, found[i+1].key)
		case kind == boltBranch:
			err = t.walk(item.page, item.key, high)
		case item.isTree:
			err = t.bucket(fmt.Sprintf("element %d of %s", i, what), item.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// boltItem is an element of a page.
type boltItem struct {
	key, value []byte // in a branch the key is the child page's first, and there is no value
	page       uint64 // branch: the child page
	isTree     bool   // leaf: the value is a tree
}

// boltItemAt reads the element at an offset of a page of some kind. Positions of keys count from the element itself. ok
// is false if the key or the value would end after the page.
func boltItemAt(b []byte, at int, kind uint16) (item boltItem, ok bool) {
	words := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(b[at+4*i:])) }
	position, key, value := words(0), words(1), uint64(0)
	if kind == boltLeaf {
		position, key, value = words(1), words(2), words(3)
	}
	begin := uint64(at) + position
	if begin+key+value > uint64(len(b)) {
		return boltItem{}, false
	}
	item = boltItem{key: b[begin : begin+key], value: b[begin+key : begin+key+value]}
	if kind == boltLeaf {
		item.isTree = words(0)&boltBucket != 0
	} else {
		item.page = binary.NativeEndian.Uint64(b[at+8:])
	}
	return item, true
}

// bucket checks the tree that the value of an element is: it has its own pages, or is small and an inline page.
func (t *boltTree) bucket(what string, b []byte) error {
	if len(b) < boltPageHead {
		return fmt.Errorf("%s has %d bytes", what, len(b))
	}
	if root := binary.NativeEndian.Uint64(b); root != 0 {
		return t.walk(root, nil, nil)
	}
	if b = b[16:]; len(b) < boltPageHead || binary.NativeEndian.Uint16(b[8:]) != boltLeaf {
		return fmt.Errorf("%s is no tree", what)
	}
	return t.elements(what, b, nil, nil)
}
