package node

import (
	"testing"
	"time"

	"github.com/stint-io/stint/internal/notify"
	"github.com/stint-io/stint/policy"
	"github.com/stint-io/stint/shard"
)

// The period that is open when a policy gets another calendar, or loses its meter, ends as it was to end, and its bill
// is pushed while it is kept, whenever periods of the new calendar end.
func TestTheLastBillsOfAMeterArePushed(t *testing.T) {
	t.Parallel()
	const plan = "policies: {plan: {notify: [invoices], limits: [{name: total, quota: 100, lifetime: {}}]"
	for what, meter := range map[string]string{
		"no meter":        "",
		"another one":     ", meter: {name: others, calendar: {unit: month}}",
		"longer periods":  ", meter: {name: calls, calendar: {unit: month}}",
		"a longer grace":  ", meter: {name: calls, calendar: {unit: hour}, grace: 31d}",
		"the same period": ", meter: {name: calls, calendar: {unit: hour}}",
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				v := newInvoices(t)
				n, clock := meteredNode(t)
				apply := func(meter string) {
					set, err := policy.Parse("", []byte(plan+meter+"}}"))
					if err != nil {
						t.Fatal(err)
					}
					if _, _, err := n.admin.Apply(t.Context(), set, nil, false, "jo", ""); err != nil {
						t.Fatal(err)
					}
				}
				apply(", meter: {name: calls, calendar: {unit: hour}, retain: 1}")
				sendNoBillsTo(n, "invoices")
				sendBillsTo(t, n, notify.Sink{Name: "invoices", Kind: notify.Webhook, URL: v.URL + "/bills"})
				if r := ask(n, shard.Check, "plan", "acme"); r.Err != nil {
					t.Fatal(r.Err)
				}
				apply(meter)
				owner := newOwner(n)
				for range 24 {
					if _, err := clock.Advance(t.Context(), 10*time.Minute); err != nil {
						t.Fatal(err)
					}
					owner.round(t.Context())
				}
				if bills, _ := v.count(); bills != 1 {
					t.Errorf("%d bills", bills)
				}
			})
		})
	}
}
