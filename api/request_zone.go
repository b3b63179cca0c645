package api

import (
	"sync"

	"github.com/stint-io/stint/limit"
)

// zones caches the time zones that were requested, by name, so that a request with its own calendar loads none. It has
// at most as many entries as the time zone database has names.
var zones sync.Map

// zoneOf returns the zone with this name; "" is UTC. The error is a *limit.FieldError. It may be called concurrently.
func zoneOf(name string) (*limit.Zone, error) {
	if zone, known := zones.Load(name); known {
		return zone.(*limit.Zone), nil
	}
	zone, err := limit.LoadZone(name)
	if err != nil {
		return nil, err
	}
	first, _ := zones.LoadOrStore(name, zone)
	return first.(*limit.Zone), nil
}
