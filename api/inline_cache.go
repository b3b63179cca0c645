package api

import (
	"sync"

	"google.golang.org/protobuf/proto"

	stintv1 "github.com/stint-io/stint/api/gen/stint/v1"
	"github.com/stint-io/stint/policy"
)

// inlineLimits caches recent limits from requests: a client sends the same ones with every call.
var inlineLimits inlineCache

// inlineCache keeps limits by the bytes of their messages. It may be used concurrently. Its callers must not change the
// limits.
type inlineCache struct {
	mu     sync.RWMutex
	limits map[string][]policy.Limit // by keyOf; nil before the first; guarded by mu
}

// The bounds of the cache, in entries and in bytes of one key. A full cache is cleared.
const (
	inlineCacheMax    = 1024
	inlineKeyBytesMax = 1024
)

// keyOf appends the bytes of the messages to room, each with its length before, or returns nil if they are too many to
// cache.
func (c *inlineCache) keyOf(room []byte, messages []*stintv1.Limit) []byte {
	for _, m := range messages {
		var err error
		size := len(room)
		room, err = proto.MarshalOptions{}.MarshalAppend(append(room, 0, 0), m)
		if err != nil || len(room) > inlineKeyBytesMax {
			return nil
		}
		room[size], room[size+1] = byte((len(room)-size)>>8), byte(len(room)-size) // no two lists have the same key
	}
	return room
}

// get returns the limits of a key, or nil. A nil key has none.
func (c *inlineCache) get(key []byte) []policy.Limit {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.limits[string(key)]
}

func (c *inlineCache) put(key []byte, limits []policy.Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limits == nil || len(c.limits) >= inlineCacheMax {
		c.limits = make(map[string][]policy.Limit)
	}
	c.limits[string(key)] = limits
}
