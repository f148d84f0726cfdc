//! Fields that are left out when they are empty.

/// Returns whether the value is the default, for `skip_serializing_if`.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
