//! The reasons for which an expression has no value.

use super::authorizer::AccessQuestion;

/// The reason why an expression has no value.
#[derive(Clone, Debug)]
pub enum Fault {
    /// An error that `&&`, `||` and comprehensions absorb if the other side determines the result.
    /// The message is cel-go's.
    Error(String),
    /// The decision about this access query is not known yet. The caller queries the host cluster
    /// and evaluates again.
    Asks(Box<AccessQuestion>),
    /// The cost of the expression exceeded the limit for one expression.
    TooCostly,
    /// The cost of all expressions together exceeded the budget.
    OutOfBudget,
    /// The evaluation exceeded its time limit.
    TooLate,
}

impl Fault {
    pub fn new(message: impl Into<String>) -> Fault {
        Fault::Error(message.into())
    }

    /// Returns the error for a function that has no overload for the types of its arguments.
    pub fn no_overload() -> Fault {
        Fault::new("no such overload")
    }

    /// Returns the error for a text that cannot be converted to the type `to`.
    pub fn no_conversion(to: &str) -> Fault {
        Fault::new(format!("type conversion error from 'string' to '{to}'"))
    }

    pub fn no_key(name: impl std::fmt::Display) -> Fault {
        Fault::new(format!("no such key: {name}"))
    }

    /// Returns whether another operand may still determine the result.
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
