//! Why an expression has no value.

use super::authorizer::AccessQuestion;

/// Why an expression has no value.
#[derive(Clone, Debug)]
pub enum Fault {
    /// An error that `&&`, `||` and comprehensions absorb if the other side settles the result. In
    /// the words of cel-go.
    Error(String),
    /// The answer to this question about a user's access is not known yet. The caller asks the host
    /// cluster and evaluates again.
    Asks(Box<AccessQuestion>),
    /// The expression cost more than one expression may.
    TooCostly,
    /// All expressions together cost more than they may.
    OutOfBudget,
    /// The evaluation took too long.
    TooLate,
}

impl Fault {
    pub fn new(message: impl Into<String>) -> Fault {
        Fault::Error(message.into())
    }

    /// No function takes values of these types.
    pub fn no_overload() -> Fault {
        Fault::new("no such overload")
    }

    /// A text that cannot be read as such a value.
    pub fn no_conversion(to: &str) -> Fault {
        Fault::new(format!("type conversion error from 'string' to '{to}'"))
    }

    pub fn no_key(name: impl std::fmt::Display) -> Fault {
        Fault::new(format!("no such key: {name}"))
    }

    /// Whether another operand may still settle the result.
    pub fn is_absorbed(&self) -> bool {
        matches!(self, Fault::Error(_))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Fault::Error(message) => formatter.write_str(message),
            Fault::Asks(_) => formatter.write_str("an answer of the authorizer is missing"),
            Fault::TooCostly => formatter.write_str("operation cancelled: actual cost limit exceeded"),
            Fault::OutOfBudget => formatter.write_str(
                "validation failed due to running out of cost budget, no further validation rules will be run",
            ),
            Fault::TooLate => formatter.write_str("operation interrupted"),
        }
    }
}
