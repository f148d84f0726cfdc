//! How much a test does: little in `cargo test`, more in CI.

/// The usual size, or the long one where the environment says `BALLAST_LONG=1`, as `.ci/run` does.
/// Both find the same faults. The long form finds rare ones with more certainty.
pub fn sized<T>(usual: T, long: T) -> T {
    if std::env::var_os("BALLAST_LONG").is_some_and(|value| value == "1") { long } else { usual }
}
