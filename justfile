# The words of CI, one by one: `just`, `just clippy`, `just fmt clippy test`.
# `.ci/run` runs all of them on a clean clone. https://just.systems says how to install just; each
# recipe is one or two lines that can be typed without it.

# Lists the recipes.
default:
    @just --list --unsorted

# Formats the code; CI checks that nothing is left to format.
fmt:
    cargo fmt --all

# Lints; a warning is an error.
clippy:
    cargo clippy --workspace --all-targets --locked --quiet -- -D warnings

# All tests, or those whose name has this part: `just test docs::walk`.
test *args:
    cargo test --locked {{args}}

# Licences, bans, sources and advisories of the dependencies.
deny:
    .ci/deny

# Plays a story: `just demo`, `just demo --story safe`.
demo *args:
    cargo run --locked -- demo {{args}}

# Writes openapi/ anew (CI: `just openapi --check`).
openapi *args:
    cargo run --locked --quiet -- openapi {{args}}

# Real clients against a server: kubectl, Python, Java. Needs `cargo build`.
clients *args:
    tests/clients/run {{args}}

# The page in a browser.
browser *args:
    tests/browser/run {{args}}

# Which changes of the code no test notices: `just mutants --seed 7 --count 20 engine`.
mutants *args:
    tests/mutants/run {{args}}

# Everything that CI runs: half an hour or more.
ci:
    .ci/run
