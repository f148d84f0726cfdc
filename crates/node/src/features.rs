//! The parts that a binary can be built without, as Cargo's features. What needs a missing part is
//! refused as wrong usage, and the refusal names the feature.

use super::UsageError;

/// A part that a binary can be built without.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// Its name for Cargo.
    name: &'static str,
    /// What a binary without it is built without.
    what: &'static str,
    is_built: bool,
}

/// The page, from a server and by `ballast ui`.
pub const PAGE: Feature = Feature { name: "page", what: "the page", is_built: cfg!(feature = "page") };
/// Servers and commands beside a Karmada.
pub const ATTACH: Feature =
    Feature { name: "attach", what: "what attaches to a Karmada", is_built: cfg!(feature = "attach") };
/// The export of traces.
pub const OTLP: Feature = Feature { name: "otlp", what: "the export of traces", is_built: cfg!(feature = "otlp") };

impl Feature {
    /// # Errors
    ///
    /// This binary is built without the part, which `flag` needs.
    pub fn needed_by(self, flag: &str) -> Result<(), UsageError> {
        if self.is_built { Ok(()) } else { Err(self.refusal(flag)) }
    }

    /// The refusal of what needs the part.
    pub fn refusal(self, flag: &str) -> UsageError {
        let Feature { name, what, .. } = self;
        UsageError(format!("{flag}: this binary is built without {what} (the feature `{name}`)"))
    }
}
