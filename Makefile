# Two commands to know: `make run` and `make test`. `make` alone lists the others.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help run send stop replay test sim mutants defects thousand chaos night bench check lint partners schemas fuzz deny build deploy rollback destroy release trial twice verify adopt clean

# Without `-p`: cargo unifies the features of the whole workspace, so that the local cloud, the
# functions and the tests share every compiled dependency.
local := cargo run --quiet --bin local --
ledgerline := cargo run --quiet --bin ledgerline --

ARCH ?= arm64
# A stage of infra/samconfig.toml: it has a stack and parameters of its own.
STAGE ?=
STACK ?= ledgerline$(if $(filter-out prod,$(STAGE)),-$(STAGE))
# The AWS CLI and the SDKs read AWS_REGION; Python's does not.
ifdef AWS_REGION
export AWS_DEFAULT_REGION := $(AWS_REGION)
endif
# By its interpreter: a script of a Python environment starts with the path at which it was installed.
python := .local/venv/bin/python3
sam := PATH="$(CURDIR)/.local/venv/bin:$$PATH" SAM_CLI_TELEMETRY=0 $(python) .local/venv/bin/sam
# A build reads no other parameter.
sam_args = --config-file "$(CURDIR)/infra/samconfig.toml" \
  --parameter-overrides Architecture=$(ARCH) $(filter Architecture=%,$(PARAMETERS))

deploy := $(python) infra/deploy/deploy.py
deploy_args = --stack $(STACK) $(if $(STAGE),--stage $(STAGE)) $(if $(YES),--yes) --ledgerline '$(ledgerline)'
deploy_parameters = Architecture=$(ARCH) $(PARAMETERS)

sim := cargo test --quiet --workspace --lib -- --nocapture

BASE ?= HEAD
TARGET ?= signatures
SECONDS ?= 60

nextest := $(shell cargo nextest --version >/dev/null 2>&1 && echo yes)
ifeq ($(nextest),yes)
run_tests := cargo nextest run --workspace --run-ignored all
clouds := 3
else
run_tests := cargo test --workspace --lib --bins --tests -- --include-ignored
clouds := 1
endif

help: ## List the verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: ## Bring the local cloud up: no account, no containers (ARGS='--port 9787 …')
	@cargo build --workspace --bins
	@$(local) up $(ARGS)

send: ## Post a new signed event to the local cloud of `make run`, or ARGS='--event <file>', and print the answer
	@$(local) send $(ARGS)

stop: ## Stop the local cloud of `make run`
	@$(local) stop

replay: ## Talk to the replay function: OP='{"op":"list"}'
	@$(local) invoke replay '$(or $(OP),{"op":"list"})'

test: check ## Check everything, then run every test against a local cloud of its own
	cargo build --workspace --all-targets
	$(local) exec --permissions --clouds $(clouds) -- $(run_tests)
	cargo test --workspace --doc --quiet
	$(local) chaos --events 200 --minutes 0.1 --seed 1

thousand: ## Measure how fast operators are answered among 1,000 dead letters
	@cargo build --workspace --all-targets
	@MEASURED=1 $(local) exec --clouds 1 -- cargo test --quiet --workspace --lib thousand -- --ignored --nocapture | grep '^list'

chaos: ## Break the local cloud under load, heal it, and balance the books (ARGS='--events 500 --seed 7 …')
	@cargo build --workspace --bins
	@$(local) chaos $(ARGS)

night: ## Let thousands of events wait on the local cloud, and measure another flow beside them (ARGS='--events 500 …')
	@cargo build --workspace --bins
	@$(local) night $(ARGS)

bench: ## Count what a change costs, at the start and for each event, tracing off and on (BASE=<revision>)
	@$(local) tools
	@$(python) -B infra/bench/bench.py --base '$(BASE)' $(ARGS)

sim: ## Simulate many schedules with faults (SEEDS=20000), or one in every line (SEED=7)
	@SEEDS='$(SEEDS)' SEED='$(SEED)' MUTANT='$(MUTANT)' $(sim) $(if $(SEED),sim::campaign::seeds_0,sim::campaign sim::sweep)

mutants: ## Break the protocol in each way, and write into infra/docs/PROOF.md by which invariant that is seen
	@WRITE_MUTANTS=1 $(sim) sim::mutants

defects: ## Put each defect of infra/docs/PROOF.md back into a copy of the code, and see a test fail for it (ARGS='--only …')
	@$(local) tools
	@$(python) -B tests/defects/put_back.py $(ARGS)

check: ## Formatting, lints, the core without AWS, the flows, the template
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	cargo check -p shared --no-default-features
	cargo check -p sim
	@$(MAKE) --no-print-directory lint
	$(ledgerline) flows test infra/flows --complete
	@if $(deny_path) cargo deny --version >/dev/null 2>&1; then $(MAKE) --no-print-directory deny; \
	else echo "cargo-deny is not installed: \`make deny\` installs it; the tests read Cargo.lock by deny.toml without it" >&2; fi

lint: ## Check what would be deployed: the flows and their scenarios, the template (cfn-lint, sam validate, checkov)
	$(ledgerline) flows check infra/flows
	$(ledgerline) flows test infra/flows
	$(local) lint

# libFuzzer needs coverage counters in the code under test, and speed: the tests are built once more, beside the others.
# bolero reads which engine it runs under from the flags, and libFuzzer's own arguments from its variable.
fuzz_dir = target/fuzz/$(TARGET)
fuzz_flags := --cfg fuzzing --cfg fuzzing_libfuzzer -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares

fuzz: ## Fuzz one target, guided by coverage (TARGET=signatures SECONDS=60)
	@command -v "$${CXX:-c++}" >/dev/null || { echo "make fuzz builds libFuzzer and needs a C++ compiler; without one, \
	BOLERO_RANDOM_TEST_TIME_MS=60000 cargo test -p tests fuzz:: runs the targets at random" >&2; exit 1; }
	mkdir -p $(fuzz_dir)/corpus
	RUSTFLAGS="$(fuzz_flags)" CARGO_PROFILE_DEV_OPT_LEVEL=2 \
	BOLERO_LIBFUZZER_ARGS="-max_total_time=$(SECONDS) -timeout=10 -len_control=0 -max_len=512 -print_final_stats=1 \
	-artifact_prefix=$(CURDIR)/$(fuzz_dir)/ $(CURDIR)/$(fuzz_dir)/corpus" \
	cargo test -p tests --lib --target-dir target/fuzz --target "$$(rustc -vV | sed -n 's/^host: //p')" \
	-- --exact fuzz::$(TARGET)::target --nocapture

# Below .local, with little optimisation: it is run more rarely than it is built.
deny_path := PATH="$(CURDIR)/.local/cargo/bin:$$PATH"
install_deny = CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
  cargo install --quiet --locked --root .local/cargo --version 0.20.2 cargo-deny

deny: ## Licences, bans and sources by cargo-deny (ARGS=advisories needs a network)
	@$(deny_path) cargo deny --version >/dev/null 2>&1 || $(install_deny)
	$(deny_path) cargo deny $(if $(filter advisories,$(ARGS)),,--offline) check $(or $(ARGS),bans licenses sources)

partners: ## Take the requests of the catalogue through Prism (PARTNERS=<folder with API descriptions>)
	@$(local) partners '$(PARTNERS)'

schemas: ## Write the JSON Schemas of the flow files anew, for editors
	$(ledgerline) flows schemas infra/flows

build: lint ## Build the functions for AWS (ARCH=x86_64 where the target for arm64 is not installed)
	$(local) tools --deploy
	$(sam) build --template-file infra/template.yaml $(sam_args)
	@$(local) built $(ARCH)

deploy: ## Look, build, say what would change, ask, and deploy to AWS (STAGE=staging PARAMETERS='PageTopicArn=…' TAGS='team=shop' YES=1 SMOKE=1)
	@$(local) tools --deploy
	@$(deploy) before $(deploy_args) $(if $(FRESH),--fresh) $(if $(RISKY),--risky) $(deploy_parameters)
	@$(MAKE) --no-print-directory build
	@$(deploy) run $(deploy_args) $(if $(REPLACE),--replace) $(if $(SMOKE),--smoke) --tags '$(TAGS)' --template .aws-sam/build/template.yaml \
	  $(deploy_parameters)

destroy: ## Delete the stack, and say what stays and how to delete that, too (STACK=ledgerline)
	@$(local) tools
	@$(deploy) destroy --stack $(STACK) $(if $(YES),--yes)

release: ## Zips of functions, command, template, SBOM and checksums, which need no toolchain (ARCH=x86_64, ONLY=command)
	@$(local) tools --deploy
	@PATH="$(CURDIR)/.local/venv/bin:$$PATH" $(python) infra/release/release.py --arch $(ARCH) --out target/releases \
	  $(if $(ONLY),--only $(ONLY))

trial: ## Deploy a package to the local cloud without cargo, and call each function (PACKAGE=<folder of a release, or .aws-sam/build>)
	cargo build --workspace --bins
	$(local) exec --clouds 1 -- "$(CURDIR)/$(python)" infra/release/trial.py "$(or $(PACKAGE),.aws-sam/build)"

twice: ## Release twice, in two folders, and compare the bytes (ARCH=x86_64, ONLY=command)
	@$(local) tools --deploy
	@PATH="$(CURDIR)/.local/venv/bin:$$PATH" $(python) infra/release/twice.py --arch $(ARCH) $(if $(ONLY),--only $(ONLY))

verify: ## Ask AWS whether it does what Ledgerline leans on (STACK=<a deployed one>, or STAGE); without, ask the local cloud
ifeq ($(origin STACK)$(STAGE),file)
	cargo build --workspace --all-targets
	$(local) verify
else
	$(local) tools
	$(python) infra/deploy/verify.py --stack $(STACK)
endif

rollback: ## Run every function by the version before the last deploy, flows included (STACK=ledgerline ARGS=--yes)
	@$(local) tools
	@$(python) infra/deploy/stack.py rollback --stack $(STACK) $(ARGS)

adopt: ## Make the stack around the tables and the queue that a deleted one left (STACK=ledgerline ARGS='LedgerTable=<name>')
	@$(local) tools
	@$(python) infra/deploy/stack.py adopt --stack $(STACK) $(ARGS)

clean: ## Remove what was built and every state of the local cloud
	rm -rf .local .aws-sam target
