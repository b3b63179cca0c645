//go:build chaos || docker

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/stint-io/stint/internal/offline/verify"
)

// client is a plain HTTP client of the JSON interface.
type client struct {
	http    http.Client
	address string
}

func newClient(address string) *client {
	return &client{address: address, http: http.Client{Timeout: 5 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

// answer is the outcome of a request, as far as the client knows.
type answer int

const (
	admitted answer = iota
	denied
	notExecuted // the server said so, or was not reached at all
	unknown     // the connection broke, or the server said so
)

type checkBody struct {
	Entries []entryBody `json:"entries"`
	ID      string      `json:"idempotencyId,omitempty"`
}

type entryBody struct {
	Policy string `json:"policy"`
	Key    string `json:"key"`
}

// check sends one check, once. id may be "".
func (c *client) check(policy, key, id string) (answer, error) {
	var reply struct {
		Decision struct {
			Allowed bool `json:"allowed"`
		} `json:"decision"`
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	status, err := c.call("Check", checkBody{Entries: []entryBody{{policy, key}}, ID: id}, &reply)
	var network *net.OpError
	switch {
	case errors.As(err, &network) && network.Op == "dial":
		return notExecuted, nil // without a connection no request was sent
	case err != nil:
		return unknown, nil // the request may have been on its way: its outcome is unknown
	case status == http.StatusOK && reply.Decision.Allowed:
		return admitted, nil
	case status == http.StatusOK:
		return denied, nil
	case reply.Code == "unavailable":
		return notExecuted, nil
	case reply.Code == "aborted":
		return unknown, nil
	}
	return unknown, fmt.Errorf("status %d, code %q: %s", status, reply.Code, reply.Message)
}

// used reads a counter.
func (c *client) used(policy, key string) (uint64, error) {
	var reply struct {
		Limits []struct {
			Used string `json:"used"`
		} `json:"limits"`
	}
	status, err := c.call("Get", checkBody{Entries: []entryBody{{policy, key}}}, &reply)
	if err != nil || status != http.StatusOK || len(reply.Limits) != 1 {
		return 0, fmt.Errorf("get %s %s: status %d, %d limits, %v", policy, key, status, len(reply.Limits), err)
	}
	if reply.Limits[0].Used == "" {
		return 0, nil
	}
	return strconv.ParseUint(reply.Limits[0].Used, 10, 64)
}

func (c *client) call(method string, message, reply any) (int, error) {
	return c.callService("LimitService/"+method, message, reply)
}

func (c *client) callService(method string, message, reply any) (int, error) {
	body, err := json.Marshal(message)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+c.address+"/stint.v1."+method, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, json.NewDecoder(response.Body).Decode(reply)
}

// describe says of what kind the failures of a run were.
func describe(r *verify.Result) (all []string) {
	for code, trouble := range r.Trouble {
		all = append(all, fmt.Sprintf("%d x %s: %s", trouble.Attempts, code, trouble.Example))
	}
	return all
}
