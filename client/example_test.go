package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stint-io/stint/client"
	"github.com/stint-io/stint/internal/testing/testcluster"
	"github.com/stint-io/stint/node"
)

// A check spends one unit, or says how long to wait.
func ExampleClient_Check() {
	limits, stop := dial()
	defer stop()
	for range 6 {
		d, err := limits.Check(context.Background(), client.Entry("login", "user:42"))
		switch {
		case err != nil:
			fmt.Println("neither yes nor no:", err)
		case d.Allowed:
			fmt.Println("yes,", d.Limits[0].Remaining, "left")
		default:
			fmt.Println("no, ask again in", d.RetryAfter.AsDuration().Round(15*time.Minute))
		}
	}
	// Output:
	// yes, 4 left
	// yes, 3 left
	// yes, 2 left
	// yes, 1 left
	// yes, 0 left
	// no, ask again in 15m0s
}

// A request with an id counts once, however often it is sent.
func ExampleClient_Check_idempotency() {
	limits, stop := dial()
	defer stop()
	payment := client.Entry("login", "user:43")
	payment.IdempotencyId = "payment-2041"
	for range 2 {
		d, err := limits.Check(context.Background(), payment)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("used", d.Limits[0].Used, "replayed", d.Replayed)
	}
	// Output:
	// used 1 replayed false
	// used 1 replayed true
}

// A login reserves its attempt before it looks at the password, and settles it after.
func ExampleClient_Attempt() {
	limits, stop := dial()
	defer stop()
	fmt.Println(login(context.Background(), limits, "ann", "guess"))
	fmt.Println(login(context.Background(), limits, "ann", "secret"))
	// Output:
	// wrong password
	// <nil>
}

func login(ctx context.Context, limits *client.Client, user, password string) error {
	attempt, err := limits.Attempt(ctx, client.Entry("login", user), 30*time.Second)
	if err != nil {
		return err // no decision, so no login
	}
	if !attempt.Allowed {
		return fmt.Errorf("too many attempts, try again in %v", attempt.RetryAfter.AsDuration())
	}
	if !passwordIsRight(user, password) {
		return errors.Join(errWrongPassword, attempt.Failed(ctx)) // the third in a row blocks the key
	}
	return attempt.Success(ctx)
}

var errWrongPassword = errors.New("wrong password")

func passwordIsRight(_, password string) bool { return password == "secret" }

// Without a decision, the caller decides: a login does not go on, an API may. A mistake of ours never passes.
func ExampleError() {
	limits, stop := dial()
	defer stop()
	fmt.Println(statusOf(context.Background(), limits, "login", "user:44", false))
	fmt.Println(statusOf(context.Background(), limits, "missing", "user:44", true))
	over, cancel := context.WithCancel(context.Background())
	cancel()
	fmt.Println(statusOf(over, limits, "login", "user:44", false))
	fmt.Println(statusOf(over, limits, "login", "user:44", true))
	// Output:
	// 200
	// 500
	// 503
	// 200
}

// statusOf asks for one unit and says what the caller answers.
func statusOf(ctx context.Context, limits *client.Client, policy, key string, open bool) (status int) {
	d, err := limits.Check(ctx, client.Entry(policy, key)) // limits has the Timeout: 2 s
	var failure *client.Error
	switch {
	case err == nil && d.Allowed:
		return 200
	case err == nil:
		return 429 // denied: wait d.RetryAfter
	case !errors.As(err, &failure), !failure.NoDecision() && !failure.NoRoom():
		return 500 // our own mistake: a wrong policy, key or token
	case open && !failure.NoRoom():
		return 200 // an API: serve it uncounted
	}
	return 503 // a login: no decision, so no login
}

// dial starts a node with the policies of `stint serve --dev`, and a client of it. The node is in this process: go test
// has compiled the server before this runs, whereas a program that is built here compiles all of it beside go test.
func dial() (limits *client.Client, stop func()) {
	dir, err := os.MkdirTemp(testcluster.InMemory(), "stint-example-")
	must(err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	n, err := node.Start(ctx, node.Config{
		DataDir: filepath.Join(dir, "data"), ClientPorts: node.ClientPorts{APIAddr: "127.0.0.1:0"},
		PoliciesFile: "../policy/dev.yaml", Dev: true,
	})
	must(err)
	must(n.AwaitReady(ctx))
	limits, err = client.New(client.Config{Addresses: []string{"http://" + n.APIAddr()}})
	must(err)
	return limits, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		limits.Close()
		must(n.Close(ctx))
		must(os.RemoveAll(dir))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
