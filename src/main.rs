//! The `ballast` binary. Everything is in the library; see `ballast::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    ballast::cli::main()
}
