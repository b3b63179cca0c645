package keyhash

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
	"github.com/stint-io/stint/shard/slot"
)

func hashed(t *testing.T, n *Namespace, key string) string {
	t.Helper()
	hash, err := n.Hash(key)
	if err != nil {
		t.Fatalf("%q: %v", key, err)
	}
	if problem := shard.KeyProblem(hash); problem != "" {
		t.Fatalf("%q: its hash %q %s", key, hash, problem)
	}
	return hash
}

// Golden: a hash is the name of a count that is kept for years. It must never change.
func TestHashesStayTheSame(t *testing.T) {
	n := New([32]byte{1, 2, 3}).In("shop")
	for key, want := range golden {
		if got := hashed(t, n, key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
	mac := func(key []byte, text string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	secret := [32]byte{1, 2, 3}
	by := mac(secret[:], "stint key: shop")
	if want := base64.RawURLEncoding.EncodeToString(mac(by, "kann@example.com")[:16]); hashed(t, n,
		"ann@example.com") != want {
		t.Errorf("the hash is not HMAC-SHA-256 of the key: want %q", want)
	}
}

// The parent of a hash is the hash of the parent, and the tag of a hash is decided by the tag.
func TestPartsAndTagsSurvive(t *testing.T) {
	set, err := policy.Parse("p",
		[]byte("policies:\n  child: {parent: top, limits: [{name: a, quota: 1, lifetime: {}}]}\n"+
			"  top: {limits: [{name: a, quota: 1, lifetime: {}}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	n := New([32]byte{7}).In("shop")
	random := rand.New(rand.NewPCG(1, 2))
	seen := map[string]string{} // hash to key
	shards := map[string]uint32{}
	for range 200_000 {
		letters := make([]byte, 1+random.IntN(12))
		for i := range letters {
			letters[i] = "ab/{}"[random.IntN(5)]
		}
		key := string(letters)
		hash := hashed(t, n, key)
		if other, ok := seen[hash]; ok && other != key {
			t.Fatalf("%q and %q have one hash", key, other)
		}
		seen[hash] = key
		plainParent, has := shard.ParentOf(set, &shard.Entry{Policy: "child", Key: key})
		parent, hashHas := shard.ParentOf(set, &shard.Entry{Policy: "child", Key: hash})
		if has != hashHas || has && parent.Key != hashed(t, n, plainParent.Key) {
			t.Fatalf("%q has parent %q (%v), and its hash %q has %q (%v)",
				key, plainParent.Key, has, hash, parent.Key, hashHas)
		}
		tag := slot.Tag(key)
		at := uint32(slot.Of("shop", hash))
		if tag == key {
			if slot.Tag(hash) != hash {
				t.Fatalf("%q has no tag, and its hash %q has", key, hash)
			}
		} else if before, ok := shards[tag]; ok && before != at {
			t.Fatalf("%q: hash %q is on another shard than those with the same tag", key, hash)
		} else if shards[tag] = at; slot.Tag(hash) == hash {
			t.Fatalf("%q has the tag %q, and its hash %q has none", key, tag, hash)
		}
	}
	if len(shards) < 100 {
		t.Errorf("only %d tags", len(shards))
	}
}

func TestNothingOfAKeyIsInItsHash(t *testing.T) {
	n := New([32]byte{7}).In("shop")
	for _, key := range []string{"ann@example.com", "{ann@example.com}", "x/{ann@example.com}/ann@example.com",
		strings.Repeat("ann@example.com/", 3)} {
		if strings.Contains(hashed(t, n, key), "ann") {
			t.Errorf("%q", hashed(t, n, key))
		}
	}
	other, another := New([32]byte{7}).In("office"), New([32]byte{8}).In("shop")
	if a := hashed(t, n, "{k}/v"); a == hashed(t, other, "{k}/v") || a == hashed(t, another, "{k}/v") {
		t.Error("another namespace, or another secret, has the same hash")
	}
	tag, _, _ := strings.Cut(strings.TrimPrefix(hashed(t, n, "{k}"), "{"), "}")
	if tag == hashed(t, n, "k") {
		t.Error("a tag has the hash of a key")
	}
}

// A key of too many parts is refused. It must not share a count with another.
func TestTooManyParts(t *testing.T) {
	n := New([32]byte{7}).In("shop")
	most := strings.Repeat("a/", PartsMax-1) + "{tag}"
	if hash := hashed(t, n, most); len(hash) > 512 {
		t.Errorf("%d bytes", len(hash))
	}
	if hash, err := n.Hash("a/" + most); !errors.Is(err, ErrParts) || hash != "" {
		t.Errorf("%q, %v", hash, err)
	}
	hashed(t, n, strings.Repeat("ä", 256))
}

func TestManyHashAtOnce(t *testing.T) {
	h := New([32]byte{7})
	want := hashed(t, h.In("shop"), "{k}/v")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				if got, err := h.In("shop").Hash("{k}/v"); err != nil || got != want {
					t.Errorf("%q, %v", got, err)
					return
				}
				h.In("office")
			}
		})
	}
	all.Wait()
	if shop := h.In("shop"); shop != h.In("shop") {
		t.Error("a namespace is made twice")
	}
}

func BenchmarkHash(b *testing.B) {
	n := New([32]byte{7}).In("shop")
	for _, key := range []string{"user:ann@example.com", "{acme}/user:ann@example.com"} {
		b.Run(key, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := n.Hash(key); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzHash: every valid key has a valid hash, or is refused for its parts.
func FuzzHash(f *testing.F) {
	f.Add("{a}/b/c")
	f.Add("//{}{x}")
	n := New([32]byte{7}).In("shop")
	f.Fuzz(func(t *testing.T, key string) {
		if shard.KeyProblem(key) != "" {
			return
		}
		hash, err := n.Hash(key)
		if err != nil {
			if strings.Count(key, "/") < PartsMax {
				t.Fatalf("%q: %v", key, err)
			}
			return
		}
		if shard.KeyProblem(hash) != "" {
			t.Fatalf("%q: %q", key, hash)
		}
	})
}

var golden = map[string]string{
	"ann@example.com": "ylSrHJ5xaXnU0Qtuo0skYA",
	"{acme}/a":        "{dOFfdmBhPBcLQK4VyU3UPw}Rp_3UDMOPBvMEqCivpsJFw/r7WIN_u5L4OSQ7uSCe21ng",
	"/x":              "q0NPEV_4Os6syrgHNxkwZA",
	"a{b/c}d":         "8Cfj5UTQV3xa4QsNw6NJjw/{EMYm4oHrm2tp2LYBNMx1RA}5HgnFRttGHur9Az6NE66DA",
}
