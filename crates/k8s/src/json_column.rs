//! The position of a value in an object, independent of a query language. Each store translates it
//! into the SQL of its database.

/// Names of members, from the root of the object inwards.
pub type MemberPath = &'static [&'static str];

/// A value that is extracted from an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonColumn {
    /// The value at a path. Absent if the object does not have the path.
    Field(MemberPath),
    /// A member of the first item of a list.
    OfFirst { list: MemberPath, member: &'static str },
    /// A list of objects as text: `member1:2,member2:3`. An item without a count is only its name.
    Named { list: MemberPath, name: &'static str, count: &'static str },
    /// The `status` of the condition of this type in `status.conditions`.
    Condition(&'static str),
}
