//! The `ballast` binary. Everything is in the library; see `ballast::cli`.

use std::process::ExitCode;

/// Admitting an object allocates about a thousand small values on one thread and frees them on
/// another. The system's allocator took a fifth of the time of a create.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ballast::cli::main()
}
