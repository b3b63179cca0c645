package shard

import (
	"testing"

	"github.com/stint-io/stint/limit"
	"github.com/stint-io/stint/policy"
)

// A denial under numbers other than the key's recorded ones states the exact instant of admission. A denial does not store
// the new numbers: until something is counted, spent units come back at the old rate.
func TestWaitUnderChangedNumbersIsExact(t *testing.T) {
	slow := limit.Limit{Algorithm: limit.TokenBucket, Quota: 2, Count: 1, Period: 10 * second, Initial: 2}
	fast := slow
	fast.Period = second
	w := newWorld(t, onePolicy(slow))
	w.batch(origin, checkOf("p", "k", 2))
	w.policies = policy.NewSet([]*policy.Policy{onePolicy(fast)})
	now := origin + limit.Time(second)
	results, _ := w.batch(now, checkOf("p", "k", 1))
	d := results[0].Decision
	if want := 9 * second; d.Allowed || d.RetryAfter != want || d.Limits[0].RetryAfter != want {
		t.Fatalf("%+v, must be denied for %d", d, want)
	}
	then := now + limit.Time(d.RetryAfter)
	if early, _ := w.batch(then-1, checkOf("p", "k", 1)); early[0].Decision.Allowed {
		t.Fatal("admitted a microsecond before")
	}
	if due, _ := w.batch(then, checkOf("p", "k", 1)); !due[0].Decision.Allowed {
		t.Fatal("not admitted when it said")
	}
	if soon, _ := w.batch(then+limit.Time(second), checkOf("p", "k", 1)); !soon[0].Decision.Allowed {
		t.Fatal("what was counted under the new numbers comes back at the old rate")
	}
}

// A used bucket that is full again under its old numbers is full under the new ones, and not at the initial level of a
// never-used bucket. A caller who was told to wait until it has room finds the room, even if the caller comes later.
func TestABucketThatIsFullAgainStaysFullUnderOtherNumbers(t *testing.T) {
	for _, how := range []policy.OnChange{policy.AsIs, policy.Proportional, policy.Additive} {
		large := limit.Limit{Algorithm: limit.TokenBucket, Quota: 4, Count: 1, Period: 10 * second, Initial: 1}
		small := large
		small.Quota = 3
		before, after := onePolicy(large), onePolicy(small)
		before.OnChange, after.OnChange = how, how
		w := newWorld(t, before)
		w.batch(origin, checkOf("p", "k", 1))
		w.policies = policy.NewSet([]*policy.Policy{after})
		results, _ := w.batch(origin+limit.Time(10*second), checkOf("p", "k", 3))
		if d := results[0].Decision; d.Allowed || d.RetryAfter <= 0 || d.RetryAfter > 30*second {
			t.Fatalf("%v: %+v", how, d)
		}
		if late, _ := w.batch(origin+limit.Time(60*second), checkOf("p", "k", 3)); !late[0].Decision.Allowed {
			t.Errorf("%v: denied when the bucket has long been full: %+v", how, late[0].Decision)
		}
	}
}

// A limit that comes to rest under its old numbers starts afresh under the new ones. A bucket that begins partly full has less room
// then than it had when it was denied by another limit: what that one says is not the whole wait.
func TestAWaitSeesALimitStartAfresh(t *testing.T) {
	window := limit.Limit{Algorithm: limit.FixedWindow, Quota: 10, Period: 10 * second}
	bucket := limit.Limit{Algorithm: limit.TokenBucket, Quota: 5, Count: 1, Period: 10 * second, Initial: 1}
	minutely := limit.Limit{Algorithm: limit.FixedWindow, Quota: 3, Period: minute}
	before, after := onePolicy(window, minutely), onePolicy(bucket, minutely)
	after.OnChange = policy.Proportional
	w := newWorld(t, before)
	w.batch(origin, checkOf("p", "k", 1))
	w.policies = policy.NewSet([]*policy.Policy{after})
	results, _ := w.batch(origin+limit.Time(second), checkOf("p", "k", 3))
	d := results[0].Decision
	if d.Allowed || d.RetryAfter != limit.Never || !d.Limits[0].Allowed || d.Limits[1].RetryAfter != 59*second {
		t.Fatalf("%+v: after a minute the bucket is like new, with one token, and a new bucket does not fill", d)
	}
	if late, _ := w.batch(origin+limit.Time(minute), checkOf("p", "k", 3)); late[0].Decision.Allowed || late[0].Decision.RetryAfter != limit.Never {
		t.Errorf("then it is %+v", late[0].Decision)
	}
}
