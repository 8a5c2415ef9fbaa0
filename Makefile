# Commands for a fresh machine. The first two do all set-up first (scripts/setup); a second run does none.
#   make demo [ARGS="--seconds 60"]   streams a 360° video over two emulated radios, writes a report, and names what to try next
#   make test                         runs every check, or fails and names what is missing
#   make check                        a part of them in minutes: tidy and the unit tests; needs a Rust toolchain and a C compiler

ARGS ?=
# Where rustup puts cargo when the shell has not been told yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

.PHONY: demo test check setup tidy
.NOTPARALLEL:

demo: setup
	cargo build --locked --release --package tributary --package tributary-lab-cli
	target/release/tributary-lab demo $(ARGS)
	@echo "The same live in your browser, with radios that you block by a click: target/release/tributary-lab show"

test: setup
	scripts/test

check:
	cargo xtask tidy --fast
	cargo test --locked --workspace --lib

tidy:
	cargo xtask tidy

setup:
	@scripts/setup
