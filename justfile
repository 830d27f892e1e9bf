# The commands of daily work. Each is one line that can be typed without just.

# What there is.
default:
    @just --list

# Every check; writes nothing.
verify:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --workspace
    cargo test -p seqd-state --features test-next-level --lib
    cargo deny check bans licenses sources
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# Formatting, and what clippy can mend by itself.
fix:
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
    cargo fmt --all

# All tests; with an argument, those whose name contains it.
test *filter:
    cargo test --workspace {{filter}}

# Three nodes on loopback.
demo *args:
    cargo run --release -p seqd -- demo {{args}}

# Rates against a bare HTTP handler and a bare fdatasync loop.
bench *args:
    cargo run --release -p seqd-tests --bin soak -- bench {{args}}

# One of the longer runs, which docs/internals/SOAK.md lists.
soak command *args:
    cargo run --release -p seqd-tests --bin soak -- {{command}} {{args}}

# Every fuzz target for so many seconds, or those that are named; needs nightly and cargo-fuzz.
fuzz seconds *targets:
    tests/fuzz/run {{seconds}} {{targets}}

# The release in dist/: binary, completions, manual pages, libraries that it needs, checksums.
dist target="":
    deploy/dist {{target}}
