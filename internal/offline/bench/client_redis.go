package bench

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// script is Lua that a Redis runs. It returns 0 for allowed and 1 for denied.
type script string

func (s script) sha() string {
	sum := sha1.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// windowScript is the most common fixed window on Redis: count, and let the first count start the window.
const windowScript script = `
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return count > tonumber(ARGV[1]) and 1 or 0`

// bucketScript is a token bucket in a hash: ARGV are its size and the milliseconds in which it fills. It uses the server's
// clock because the clients' clocks differ.
const bucketScript script = `
local size, fill = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(bucket[1]) or size, tonumber(bucket[2]) or now
tokens = math.min(size, tokens + math.max(0, now - at) * size / fill)
local denied = 1
if tokens >= 1 then tokens, denied = tokens - 1, 0 end
redis.call('HMSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], fill)
return denied`

// redisPort sends a run's commands other than its load. It belongs to one goroutine.
type redisPort struct {
	plan    Plan
	client  *respClient
	audited int      // work incr: the number of keys, from the first on, whose counters are read
	before  []uint64 // work incr: their values when the run began; nil: all 0
}

// auditedMax bounds the counters that are read before and after a run on used keys. For fresh keys all counters are read,
// once.
const auditedMax = 10_000

func newRedisPort(p Plan) *redisPort {
	port := &redisPort{plan: p, audited: p.Keys}
	if !p.Fresh {
		port.audited = min(p.Keys, auditedMax)
	}
	port.client = &respClient{targets: p.Redis, timeout: p.Timeout, secure: redisTLS(p), token: redisToken(p), buffer: make([]byte, 0, 64<<10)}
	return port
}

func (p *redisPort) close() { p.client.close() }

// prepare loads the scripts of the work, and reads the counters that may have been used before.
func (p *redisPort) prepare() (err error) {
	switch {
	case p.plan.IsRedis && p.plan.Work == Window:
		_, err = p.ask("SCRIPT", "LOAD", string(windowScript))
	case p.plan.IsRedis && p.plan.Work == Bucket:
		_, err = p.ask("SCRIPT", "LOAD", string(bucketScript))
	case p.plan.Work == Incr && !p.plan.Fresh:
		p.before, err = p.counters()
	default:
		_, err = p.ask("PING")
	}
	return err
}

// ask sends one command and reads its reply. An error reply is returned as an error.
func (p *redisPort) ask(words ...string) (reply, error) {
	replies, err := p.askAll(appendCommand(nil, words...), 1)
	if err != nil {
		return reply{}, fmt.Errorf("%s to %s: %w", words[0], strings.Join(p.plan.Redis, ","), err)
	}
	return replies[0], nil
}

// askAll sends a pipeline and reads its replies.
func (p *redisPort) askAll(commands []byte, count int) (replies []reply, err error) {
	c := p.client
	if err := c.connect(); err != nil {
		return nil, err
	}
	if err := c.conn.SetDeadline(time.Now().Add(p.plan.Timeout)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(commands); err != nil {
		c.close()
		return nil, err
	}
	for range count {
		r, err := c.next()
		if err != nil {
			c.close()
			return nil, err
		}
		if r.kind == '-' {
			c.close() // drops the remaining replies
			return nil, errors.New(string(r.text))
		}
		r.text = bytes.Clone(r.text)
		replies = append(replies, r)
	}
	return replies, nil
}

// pipelineMax is the number of keys that are read or deleted at once.
const pipelineMax = 256

// each sends one command for each of the first keys of the run.
func (p *redisPort) each(command string, keys int, hear func(key int, r reply) error) error {
	for first := 0; first < keys; first += pipelineMax {
		end := min(first+pipelineMax, keys)
		var commands []byte
		for key := first; key < end; key++ {
			commands = appendCommand(commands, command, p.plan.keyName(uint32(key)))
		}
		replies, err := p.askAll(commands, end-first)
		if err != nil {
			return fmt.Errorf("%s of the run's keys: %w", command, err)
		}
		for i, r := range replies {
			if err := hear(first+i, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// counters reads the audited counters of work incr.
func (p *redisPort) counters() ([]uint64, error) {
	counters := make([]uint64, p.audited)
	err := p.each("GET", p.audited, func(key int, r reply) (err error) {
		if r.text != nil {
			counters[key], err = strconv.ParseUint(string(r.text), 10, 64)
		}
		return err
	})
	return counters, err
}

// sweep deletes the run's keys: counters would stay forever.
func (p *redisPort) sweep() error {
	return p.each("DEL", p.plan.Keys, func(int, reply) error { return nil })
}

// judge compares every counter with the acknowledged INCRs. An INCR with an unknown outcome may have counted.
func (p *redisPort) judge(l *ledger) (Verdict, error) {
	counters, err := p.counters()
	if err != nil {
		return Verdict{}, fmt.Errorf("the audit: %w", err)
	}
	v := Verdict{OK: true, Exact: true, Checked: true}
	counted := uint64(0)
	for key, now := range counters {
		if p.before != nil {
			now -= min(now, p.before[key])
		}
		told, unknown := l.accounts[key].admitted.Load(), l.accounts[key].unknown.Load()
		if now < told || now > told+unknown {
			return Verdict{Checked: true, Admitted: told, AtLeast: now - min(now, unknown), AtMost: now,
				Text: fmt.Sprintf("MISCOUNTED: key %s holds %s more than before the run, after %s acknowledged INCRs and %s of "+
					"unknown outcome", p.plan.keyName(uint32(key)), grouped(now), grouped(told), grouped(unknown))}, nil
		}
		v.Exact = v.Exact && unknown == 0
		v.Admitted, v.AtLeast, v.AtMost = v.Admitted+told, v.AtLeast+now-min(now, unknown), v.AtMost+now
		counted += now
	}
	v.Text = fmt.Sprintf("exact: %s acknowledged, and the counters hold %s", grouped(v.Admitted), grouped(counted))
	if !v.Exact {
		v.Text = fmt.Sprintf("within bounds: %s acknowledged, some outcomes unknown, and the counters hold %s",
			grouped(v.Admitted), grouped(counted))
	}
	if p.audited < p.plan.Keys {
		v.Text += fmt.Sprintf(", on %s of %s keys", grouped(uint64(p.audited)), grouped(uint64(p.plan.Keys)))
	}
	return v, nil
}

// RedisInfo is what a Redis reports about itself, as far as it decides what an acknowledgement is worth.
type RedisInfo struct {
	Address     string      `json:"address"`
	Version     string      `json:"version"`
	AppendOnly  bool        `json:"appendOnly"`
	AppendFsync string      `json:"appendFsync"` // always, everysec or no; means something only with AppendOnly
	Replicas    []RedisInfo `json:"replicas,omitempty"`
}

// Durability describes the durability in words.
func (i RedisInfo) Durability() string {
	if i.AppendFsync == "" {
		return "durability not known"
	}
	if !i.AppendOnly {
		return "no append-only file: forgotten when the process ends"
	}
	return "appendonly yes, appendfsync " + i.AppendFsync
}

// info asks a Redis, and its reachable replicas.
func (p *redisPort) info() (RedisInfo, error) {
	i := RedisInfo{Address: strings.Join(p.plan.Redis, ",")}
	about, err := p.ask("INFO")
	if err != nil {
		return i, err
	}
	i.Version = infoValue(about.text, "redis_version")
	if fsync, err := p.ask("CONFIG", "GET", "appendfsync"); err == nil { // some hosted Redis services forbid CONFIG
		i.AppendFsync = string(fsync.text)
		i.AppendOnly = infoValue(about.text, "aof_enabled") == "1"
	}
	for _, address := range replicaAddresses(about.text) {
		replica := newRedisPort(Plan{Redis: []string{address}, Timeout: time.Second})
		told, err := replica.info()
		replica.close()
		if err != nil {
			told = RedisInfo{Address: address}
		}
		i.Replicas = append(i.Replicas, told)
	}
	return i, nil
}

// cpuSeconds is the processor time of a Redis and of its reachable replicas. NaN: unknown.
func (p *redisPort) cpuSeconds() float64 {
	about, err := p.ask("INFO")
	if err != nil {
		return math.NaN()
	}
	sum := 0.0
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, err := strconv.ParseFloat(infoValue(about.text, name), 64)
		if err != nil {
			return math.NaN()
		}
		sum += seconds
	}
	for _, address := range replicaAddresses(about.text) {
		replica := newRedisPort(Plan{Redis: []string{address}, Timeout: time.Second})
		if seconds := replica.cpuSeconds(); !math.IsNaN(seconds) {
			sum += seconds
		}
		replica.close()
	}
	return sum
}

// infoValue returns the value of a line of INFO.
func infoValue(about []byte, name string) string {
	for line := range bytes.Lines(about) {
		if value, ok := bytes.CutPrefix(line, []byte(name+":")); ok {
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}

// replicaAddresses reads lines such as slave0:ip=127.0.0.1,port=6380,state=online,offset=14,lag=0.
func replicaAddresses(about []byte) (addresses []string) {
	for n := 0; ; n++ {
		fields := map[string]string{}
		line := infoValue(about, "slave"+strconv.Itoa(n))
		if line == "" {
			return addresses
		}
		for field := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(field, "=")
			fields[name] = value
		}
		if fields["state"] == "online" {
			addresses = append(addresses, net.JoinHostPort(fields["ip"], fields["port"]))
		}
	}
}
