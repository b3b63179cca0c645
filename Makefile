# Everything a change needs. `make` alone lists the targets.

# The generators are a module of their own (tools/go.mod): no fetch, no global install, one version for everybody.
tool := go tool -modfile=tools/go.mod

.DEFAULT_GOAL := help
.PHONY: help generate generate-check

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

generate: ## write api/gen from api/stint/v1/*.proto
	$(tool) buf lint
	$(tool) buf generate

# Generates beside the tree and compares, so that neither success nor failure changes a file of it.
generate-check: ## fail if api/gen is not what api/stint/v1/*.proto says
	$(tool) buf lint
	@fresh=$$(mktemp -d) && trap 'rm -rf "$$fresh"' EXIT && \
	$(tool) buf generate --output "$$fresh" && \
	{ diff -r "$$fresh/api/gen" api/gen || \
	{ echo "api/gen is stale: run 'make generate' and commit what it writes" >&2; exit 1; }; }
