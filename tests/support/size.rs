//! The size of tests: small in `cargo test`, larger in CI.

/// Returns the usual size, or the long one if `BALLAST_LONG=1` is set, as `.ci/run` does. Both find
/// the same faults; the long form finds rare ones with more certainty.
pub fn sized<T>(usual: T, long: T) -> T {
    if std::env::var_os("BALLAST_LONG").is_some_and(|value| value == "1") { long } else { usual }
}
