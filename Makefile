# Everything a change needs. `make` alone lists the targets.

# Only the race detector needs a C compiler.
export CGO_ENABLED ?= 0

# Generators and linters are a module of their own (tools/go.mod): no global install, one version for everybody.
tool := go tool -modfile=tools/go.mod

.DEFAULT_GOAL := help
.PHONY: help generate generate-check build image test demo race race-all twins sim mutants mutants-changed chaos storm upgrade flood pages proxies spellings traefik dashboard pictures js python php ruby java caddy terraform docker chart release packages lint lint-all fuzz bench bench-allocs bench-baseline ci full

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

generate: ## write api/gen from api/stint/v1/*.proto
	$(tool) buf lint
	$(tool) buf generate

# Generates beside the tree and compares, so that neither success nor failure changes a file of it.
generate-check: ## fail if api/gen is not what api/stint/v1/*.proto says, or its openapi.yaml is no OpenAPI
	$(tool) buf lint
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && \
	$(tool) buf generate --output "$$fresh" && \
	{ diff -r "$$fresh/api/gen" api/gen || \
	{ echo "api/gen is stale: run 'make generate' and commit what it writes" >&2; exit 1; }; }
	cd tools && go test -count=1 ./openapi

build: ## build ./stint
	go build ./cmd/stint

image: ARCH ?= $(shell go env GOARCH)
image: IMAGE ?= stint:dev
image: VERSION ?= dev
image: ## the image stint:dev, FROM scratch, without any network; ARCH=arm64, IMAGE=NAME:TAG and VERSION=V make another one
	rm -rf dist/image && mkdir -p dist/image && mkdir -m 0700 dist/image/data
	CGO_ENABLED=0 GOOS=linux GOARCH=$(ARCH) go build -trimpath -o dist/image/stint \
		-ldflags '-s -w -X main.release=$(VERSION:dev=) -X main.revision=$(shell git rev-parse HEAD 2> /dev/null)' ./cmd/stint
	cp LICENSE dist/image/
	cd tools/release && go run . -licenses ../../dist/image/stint > ../../dist/image/third-party-licenses
	docker build -q --platform linux/$(ARCH) -t $(IMAGE) -f deploy/Dockerfile.scratch \
		--build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD 2> /dev/null) dist/image

test: ## the tests that need nothing but Go
	go test ./...
	cd tools/bench && go test .

demo: ## three nodes, a proxy, a kill, 150 requests: exactly 100 pass
	@go build -o dist/stint ./cmd/stint
	@go run ./examples/demo -stint dist/stint

# Where goroutines are: packages that start some or lock something. The floors below start none (arch_test.go).
# In reverse order, so that node, which takes longest, is not the last to begin.
raced := $$(git grep -lE '^\s*go |"sync(/atomic)?"' -- '*.go' ':!*_test.go' ':!api/gen' ':!examples' ':!cmd' | xargs dirname | sort -ru | sed 's|^|./|')
# Pebble's compression in Go instead of C, which takes longer to build than stint itself. The detector needs cgo.
# One processor a test binary: on more, two threads that run timers of one testing/synctest bubble share a thread state of
# the detector, which then ends the binary by chance (go.dev/issue/78156). It finds the same races, by their order.
race_flags := -race -short -vet=off -cpu 1 -tags pebblegozstd

race: export CGO_ENABLED = 1
race: ## packages with goroutines under the race detector
	go test $(race_flags) -timeout 20m $(raced)

race-all: export CGO_ENABLED = 1
race-all: ## every package under the race detector
	go test $(race_flags) -timeout 20m ./...
	go test $(race_flags) -timeout 20m -run '^TestClusters$$' ./internal/testing/sim -sim.worlds=3 -sim.first=3

SEED ?= 0

twins: ## millions of operations beside the slow twins, and worlds in virtual time: more of what go test does (SEED; 0 draws one)
	go test -count=1 -timeout 30m -run 'Twin|Conversions' ./internal/testing/model -seed $(SEED) -operations 1000000
	go test -count=1 -timeout 30m -run 'IsTheTwins|InEveryOrder|WhatIsUsed|WaitsAreExact|CopiesAreCounted|NoFlood' ./shard -seed $(SEED) -operations 500000
	go test -count=1 -timeout 30m -run '^TestSimulation$$' ./actor -worlds 1600
	go test -count=1 -timeout 30m -run 'AllOrNothing|HearTheTruth' ./cluster/routing -seed $(SEED) -worlds 200
	go test -count=1 -timeout 30m -run '^TestRandomWorlds' ./cluster/placement -plan-first $(SEED) -plan-worlds 200

WORLDS ?= 500
FROM ?= 1
MOVES ?= false

sim: ## WORLDS whole clusters in virtual time, with everything that can fail; FROM: the first seed; MOVES=true: slots move in each
	go test -count=1 -timeout 5h -run '^TestClusters$$' -v ./internal/testing/sim -sim.worlds=$(WORLDS) -sim.first=$(FROM) -sim.moves=$(MOVES)

MUTANTS ?= .*

# In its own directory, go test shows which mutants are judged. Many of them wait for what does not come: eight at once.
judge := cd internal/testing/mutants && go test -parallel 8 -timeout 60m -run '^TestMutants$$'

mutants: ## the source with one guard taken out, again and again: the tests must fail (MUTANTS: a name, a package that judges, or a pattern)
	$(judge) -judge '$(MUTANTS)'

mutants-changed: ## those in what has changed since the commit SINCE, and a few more that the text HASH draws
	$(judge) -since '$(SINCE)' -hash '$(HASH)'

chaos: ## real processes: killed, paused, cut off, restarted, with disks that fail; one node and three
	go test -tags chaos -count=1 -timeout 30m -v ./internal/testing/chaos
	go test -tags chaos -count=1 -timeout 10m -v -run WhileANodeIsKilled ./client/internal/inbound

storm: ## some of the faults of chaos, one after the other, on three real processes
	go test -tags chaos -count=1 -timeout 10m -v -run '^TestShortStorm$$' ./internal/testing/chaos

# The tag nextlevel makes a build that knows one feature level more.
upgrade: ## to a next feature level: its mechanism, then three real nodes, one at a time under load, and one of them back
	go test -tags nextlevel -short -count=1 -timeout 10m -run 'Level|Upgrade|AnotherVersion' ./shard ./actor ./raftfsm ./cluster/placement ./node
	go test -tags chaos,nextlevel -count=1 -timeout 10m -v -run '^TestUpgrade' ./internal/testing/chaos

flood: ## three real nodes with little memory, flooded for a minute with all that leaves records
	go test -tags chaos,flood -count=1 -timeout 10m -v -run '^TestFlood' ./internal/testing/chaos

# At the ports of the manual: 7400 to 7432, and 6380.
pages: ## every command of README.md and docs/, typed in a fresh copy of the repository; PAGES: a pattern of their names
	go test -tags pages -count=1 -timeout 20m -v -run '^TestPages$$/$(PAGES)' ./examples

proxies: ## the examples with nginx, Caddy, HAProxy and, where it was built, Traefik, in front of three real nodes
	go test -tags proxies -count=1 -timeout 10m -v -run '^TestProxies' ./examples

# Debian's servers, as testdata/servers sets them up.
spellings: ## real servers asked for a page in every spelling: what they take for it, a gate counts or refuses
	go test -tags spellings -count=1 -timeout 10m -v -run '^TestTheSpellingsThatServersTake$$' ./internal/gate

# The module lacks the web page and a nested module with two empty types. Building it takes many minutes, so ci has no Traefik.
traefik_version := v3.7.9
traefik_source := dist/traefik-$(traefik_version)

traefik: ## dist/traefik, out of the Go module proxy, for `make proxies`
	rm -rf $(traefik_source) && mkdir -p dist
	cp -r "$$(cd / && go mod download -json github.com/traefik/traefik/v3@$(traefik_version) | sed -n 's/^\t"Dir": "\(.*\)",$$/\1/p')" $(traefik_source)
	chmod -R u+w $(traefik_source)
	echo 'no web page' > $(traefik_source)/webui/static/index.html
	mkdir -p $(traefik_source)/pkg/config/dynamic/ext
	printf 'module github.com/traefik/traefik/dynamic/ext\n' > $(traefik_source)/pkg/config/dynamic/ext/go.mod
	printf 'package ext\n\ntype HTTP struct{}\n\ntype Router struct{}\n' > $(traefik_source)/pkg/config/dynamic/ext/ext.go
	cd $(traefik_source) && go build -trimpath -ldflags '-s -w' -o ../traefik ./cmd/traefik
	rm -rf $(traefik_source)

dashboard: ## an operator at the dashboard of three real nodes, in a real Chromium
	go test -tags chaos,browser -count=1 -timeout 10m -v -run '^TestDashboard$$' ./internal/testing/chaos

pictures: ## docs/pictures, of every screen of the dashboard
	mkdir -p docs/pictures
	go test -tags chaos,browser -count=1 -timeout 10m -v -run '^TestDashboard$$' ./internal/testing/chaos -pictures $(CURDIR)/docs/pictures

# Debian keeps modules of Node where only its own Node looks by itself.
js: export NODE_PATH := /usr/share/nodejs
js: ## the JavaScript client beside a real node: Node 20.19 or later, openssl, Debian's node-express and node-typescript
	@node -e 'process.exit(process.features.require_module ? 0 : 1)' || { echo "make js needs Node 20.19 or later" >&2; exit 1; }
	@node -e 'require("express")' 2> /dev/null || { echo "make js needs Express: Debian's node-express" >&2; exit 1; }
	@command -v npm > /dev/null || { echo "make js needs npm, which comes with Node" >&2; exit 1; }
	@command -v tsc > /dev/null || { echo "make js needs tsc: Debian's node-typescript" >&2; exit 1; }
	@command -v openssl > /dev/null || { echo "make js needs openssl" >&2; exit 1; }
	go build -o dist/stint ./cmd/stint
	STINT_BINARY=$(CURDIR)/dist/stint node --test client/js/test/*.test.js

PYTHON ?= /usr/bin/python3

python: ## the Python client beside a real node: Python 3.9 or later (PYTHON), openssl, Debian's python3-limits, python3-redis, python3-fastapi, python3-flask-limiter, python3-djangorestframework and python3-wheel
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 9))' || { echo "make python needs Python 3.9 or later at $(PYTHON): set PYTHON" >&2; exit 1; }
	@$(PYTHON) -c 'import fastapi, flask_limiter, limits, redis, rest_framework, setuptools, wheel' 2> /dev/null || { echo "make python needs packages for $(PYTHON): Debian's python3-limits, python3-redis, python3-fastapi, python3-flask-limiter, python3-djangorestframework, python3-wheel" >&2; exit 1; }
	@command -v openssl > /dev/null || { echo "make python needs openssl" >&2; exit 1; }
	go build -o dist/stint ./cmd/stint
	STINT_BINARY=$(CURDIR)/dist/stint $(PYTHON) -B -m unittest discover -s client/python/test

php: ## the PHP client beside a real node: PHP 8.1 or later with pcntl, openssl, Debian's php-symfony-rate-limiter
	@php -r 'exit(PHP_VERSION_ID < 80100 || !function_exists("pcntl_fork") ? 1 : 0);' || { echo "make php needs PHP 8.1 or later: Debian's php-cli" >&2; exit 1; }
	@test -d /usr/share/php/Symfony/Component/RateLimiter || { echo "make php needs Debian's php-symfony-rate-limiter" >&2; exit 1; }
	@command -v openssl > /dev/null || { echo "make php needs openssl" >&2; exit 1; }
	go build -o dist/stint ./cmd/stint
	for tests in cases stint limiter middleware; do STINT_BINARY=$(CURDIR)/dist/stint php client/php/test/$${tests}_test.php || exit 1; done

ruby: ## the Ruby client beside a real node: Ruby 3.0 or later, openssl, Debian's ruby-rack-attack
	@ruby -e 'exit(RUBY_VERSION >= "3.0")' || { echo "make ruby needs Ruby 3.0 or later: Debian's ruby" >&2; exit 1; }
	@ruby -rrack/attack -e '' 2> /dev/null || { echo "make ruby needs Debian's ruby-rack-attack" >&2; exit 1; }
	@command -v openssl > /dev/null || { echo "make ruby needs openssl" >&2; exit 1; }
	go build -o dist/stint ./cmd/stint
	for tests in client/ruby/test/test_*.rb; do STINT_BINARY=$(CURDIR)/dist/stint ruby -w $$tests || exit 1; done

tomcat := $(shell printf ':/usr/share/java/tomcat10-%s.jar' annotations-api api catalina coyote jaspic-api jni juli servlet-api util util-scan)

java: ## the Java client beside a real node: a JDK from 17 on, openssl, Debian's libtomcat10-java
	@command -v javac > /dev/null || { echo "make java needs a JDK: Debian's default-jdk-headless" >&2; exit 1; }
	@test -f /usr/share/java/tomcat10-catalina.jar || { echo "make java needs Debian's libtomcat10-java" >&2; exit 1; }
	@command -v openssl > /dev/null || { echo "make java needs openssl" >&2; exit 1; }
	go build -o dist/stint ./cmd/stint
	rm -rf dist/java
	javac --release 17 -Xlint:all,-processing -Werror -cp $(tomcat) -sourcepath client/java/test -d dist/java client/java/stint/*.java client/java/test/stint/*.java
	for tests in Cases Stint Filter RateLimiter; do STINT_BINARY=$(CURDIR)/dist/stint java -cp dist/java$(tomcat) stint.$${tests}Test || exit 1; done

caddy: ## the handler for Caddy, in a Caddy that is built out of the Go module proxy, beside a real node; its first build takes minutes
	cd client/stintcaddy && go vet ./... && go test -count=1 -timeout 30m .

terraform: ## the provider for Terraform: its server beside a real node, without the program terraform
	cd deploy/terraform && go vet . && go test -count=1 -timeout 20m .

chart: image ## the Helm chart, rendered by Helm's own engine and run as containers; its first build takes minutes
	cd tools/chart && go test -tags docker -count=1 -timeout 30m -v .

docker: image ## the image, docker-compose.yml, and the files of three production hosts, on a real engine
	go test -tags docker -count=1 -v -run 'Compose|ProductionHosts|Image' ./internal/testing/chaos
	go test -tags pages -count=1 -v -run '^TestPagesOfContainers$$' ./examples

# The newest that CHANGELOG.md has. No tag is needed.
VERSION ?= v$(shell sed -n 's/^## \([0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1)

release: ## the files of a release in dist, of the commit that is checked out (VERSION; MINISIGN_KEY: a file, to sign)
	cd tools/release && go run . -version '$(VERSION)' -out '$(CURDIR)/dist' -key '$(if $(MINISIGN_KEY),$(abspath $(MINISIGN_KEY)))'

packages: ## two releases are equal to the byte; their packages in a Debian of their own. As root: debootstrap, lintian, rpm, minisign, zstd
	cd tools/release && go test -count=1 -timeout 90m -v .

tags := chaos,docker,flood,nextlevel,pages,proxies,spellings

lint: ## vet and staticcheck, with the build tags
	go vet -tags $(tags) ./...
	$(tool) staticcheck -tags $(tags) ./...
	cd tools/bench && go vet . && go tool -modfile=../go.mod staticcheck .

lint-all: lint ## the same without them too; vet for macOS, with the driver of Chromium, and of the tools
	go vet ./...
	$(tool) staticcheck ./...
	GOOS=darwin go vet ./...
	go vet -tags $(tags),browser ./internal/testing/chaos
	cd tools && go vet ./openapi
	cd tools/release && go vet .

# Inputs, not seconds: at the end of a time Go's fuzzer may fail with "context deadline exceeded" and nothing found (golang/go#75804,
# before Go 1.27). An input that reaches new code is made smaller in 100 tries: without a bound that took nearly all the time.
FUZZTIME ?= 100000x

fuzz: ## fuzz every decoder with FUZZTIME inputs each
	@go list -f '{{.Dir}} {{range .TestGoFiles}}{{.}} {{end}}{{range .XTestGoFiles}}{{.}} {{end}}' ./... | while read -r dir files; do \
	  for target in $$(cd $$dir && cat /dev/null $$files | sed -n 's/^func \(Fuzz[A-Za-z0-9]*\).*/\1/p'); do \
	    echo "$$dir $$target"; \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x $$dir || exit 1; \
	  done; \
	done

# The micro-benchmarks that are guarded: arithmetic, batches, the formats of entries and frames, the way through an actor.
micro := go test -run '^$$' -benchmem -timeout 30m \
  -bench '^Benchmark(Take|TakeEachInstant|AppendState|OpenPeriod|DecodeLimit|Batch|EntryCodec|Table|ID|Submit|Frame|Install|Token|Incoming)$$' \
  ./limit ./shard ./actor ./cluster/hop ./raftfsm ./internal/edge/auth ./internal/observe/trace
timed  := -count 6 -benchtime 100ms
exact  := -count 3 -benchtime 100x

bench: ## the micro-benchmarks beside the kept baseline; only those of one machine compare in time
	@mkdir -p dist
	$(micro) $(timed) | tee dist/bench.txt
	$(tool) benchstat docs/benchmarks/baseline.txt dist/bench.txt
	@$(MAKE) --no-print-directory bench-allocs

bench-allocs: ## fail if a micro-benchmark allocates more often than docs/benchmarks/allocs.txt says
	@mkdir -p dist
	@$(micro) $(exact) > dist/allocs-run.txt || { cat dist/allocs-run.txt; exit 1; }
	@awk -f docs/benchmarks/allocs.awk docs/benchmarks/allocs.txt dist/allocs-run.txt

bench-baseline: ## measure the baseline anew, on a quiet machine
	$(micro) $(timed) > docs/benchmarks/baseline.txt
	@mkdir -p dist
	$(micro) $(exact) > dist/allocs-run.txt
	awk -v write=1 -f docs/benchmarks/allocs.awk dist/allocs-run.txt | LC_ALL=C sort > docs/benchmarks/allocs.txt

ci: ## ring one: what must pass before a change lands, in a quarter of an hour
	.ci/run

full: ## everything, step by step; STEPS: the names of some
	.ci/full $(STEPS)
