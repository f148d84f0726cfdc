//! The structural schema of a kind, lowered once from its Rust type: it prunes, defaults and validates.

/// A structural schema.
#[derive(Debug)]
pub struct Schema {}

impl Schema {
    /// Lowers the schema that utoipa derives for `T`.
    pub fn of<T: utoipa::ToSchema>() -> Schema {
        Schema {}
    }
}
