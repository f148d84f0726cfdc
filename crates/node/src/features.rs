//! Optional parts of a binary, as Cargo features. Flags and commands that need a missing part are
//! rejected as usage errors that name the feature.

use super::UsageError;

/// An optional part of a binary.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    /// The name of the Cargo feature.
    name: &'static str,
    /// The missing functionality, for the error message.
    what: &'static str,
    is_built: bool,
}

/// The web page, served by a server and by `ballast ui`.
pub const PAGE: Feature = Feature { name: "page", what: "the page", is_built: cfg!(feature = "page") };
/// Servers and commands that attach to a Karmada.
pub const ATTACH: Feature =
    Feature { name: "attach", what: "what attaches to a Karmada", is_built: cfg!(feature = "attach") };
/// The export of traces.
pub const OTLP: Feature = Feature { name: "otlp", what: "the export of traces", is_built: cfg!(feature = "otlp") };

impl Feature {
    /// Checks that the part is built, because `flag` needs it.
    ///
    /// # Errors
    ///
    /// Returns an error if this binary is built without the part.
    pub fn needed_by(self, flag: &str) -> Result<(), UsageError> {
        if self.is_built { Ok(()) } else { Err(self.refusal(flag)) }
    }

    /// Returns the error for a flag that needs the missing part.
    pub fn refusal(self, flag: &str) -> UsageError {
        let Feature { name, what, .. } = self;
        UsageError(format!("{flag}: this binary is built without {what} (the feature `{name}`)"))
    }
}
