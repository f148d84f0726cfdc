//! The `ballast` binary. Everything is in the library; see `ballast::cli`.

fn main() {}
