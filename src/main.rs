//! The `ballast` binary. Everything is in the library; see `ballast::cli`.

use std::process::ExitCode;

/// Admitting an object allocates a thousand small things on one thread that another frees: a fifth
/// of the time of a create went into the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ballast::cli::main()
}
