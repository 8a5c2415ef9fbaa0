# Two commands for a fresh machine. Both do all set-up first (scripts/setup); a second run does none.
#   make demo [ARGS="--seconds 60"]   streams a 360° video over two emulated radios and writes a report
#   make test                         runs every check

ARGS ?=
# Where rustup puts cargo when the shell has not been told yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: demo test setup tidy
.NOTPARALLEL:

demo: setup
	cargo build --locked --release --package tributary --package tributary-lab-cli
	target/release/tributary-lab demo $(ARGS)

test: setup
	scripts/test

tidy:
	cargo xtask tidy

setup:
	@scripts/setup
